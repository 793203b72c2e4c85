#!/bin/sh
# Chromium from Debian's packages, where we may install it; one sentence otherwise.
command -v chromium >/dev/null && exit 0
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
  echo "installing chromium ..."
  # Another installation may be under way: wait for its lock.
  wait="-o DPkg::Lock::Timeout=300"
  (apt-get update $wait && apt-get install $wait -y chromium) >/tmp/chromium-install.log 2>&1
fi
command -v chromium >/dev/null && exit 0
echo "make test-browser: chromium is missing; install it (apt-get install chromium) and try again." >&2
exit 2
