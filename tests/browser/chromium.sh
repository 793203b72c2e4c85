#!/bin/sh
# Chromium from Debian's packages, where we may install it; one sentence otherwise.
command -v chromium >/dev/null && exit 0
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
  echo "installing chromium ..."
  (apt-get update && apt-get install -y chromium) >/tmp/chromium-install.log 2>&1
fi
command -v chromium >/dev/null && exit 0
echo "make test-browser: chromium is missing; install it (apt-get install chromium) and try again." >&2
exit 2
