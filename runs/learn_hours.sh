#!/bin/sh
# What 1, 3 and 8 hours of `learn` give in a clustered city that general has never seen, on
# one core: each begins where the one before ended. Run it again to go on after any stop.
#
#   runs/learn_hours.sh OUT [HOURS ...]
#
# City: 3000 clustered locations, seed 7. Figures: what `learn` prints, 100 validation days of
# N = 100 and of N = 200, HGS of 1 and 4 s, seeds not moved; models in OUT/after-H.
set -eu
out=$1
shift
test -d "$out/city" ||
  clusterfirst city sample --locations 3000 --layout clustered --seed 7 --out "$out/city"
for hours in ${*:-1 3 8}; do
  test -d "$out/after-$hours" && continue
  clusterfirst learn "$out/city" --hours "$hours" --threads 1 --out "$out/learned"
  rm -rf "$out/copy" && cp -r "$out/learned/model" "$out/copy" && mv "$out/copy" "$out/after-$hours"
done
