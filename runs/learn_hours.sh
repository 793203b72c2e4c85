#!/bin/sh
# What 1, 3 and 8 core-hours of `learn` give in a clustered city that general has never
# seen: each begins where the one before ended. Run it again to go on after any stop.
#
#   [CORES=2] [LABELS=labels/clustered] [STATE=FOLDER] runs/learn_hours.sh OUT [HOURS ...]
#
# CORES cores take a share of the hours each. LABELS: labels made before, all of which are
# learned from; `learn` makes those that are missing. Those of 8 hours cost 2.4 of them and
# are published. STATE: plan, table and model kept of a folder that was lost; with the labels
# they are enough to go on.
# City: 3000 clustered locations, seed 7. Figures: what `learn` prints, 100 validation days of
# N = 100 and of N = 200, HGS of 1 and 4 s, seeds not moved; models in OUT/after-H.
set -eu
out=$1
shift
cores=${CORES:-1}
test -d "$out/city" ||
  clusterfirst city sample --locations 3000 --layout clustered --seed 7 --out "$out/city"
if test -n "${LABELS:-}" && ! test -d "$out/learned/labels"; then
  mkdir -p "$out/learned" && cp -r "$LABELS" "$out/learned/labels"
fi
if test -n "${STATE:-}" && ! test -e "$out/learned/plan.json"; then
  mkdir -p "$out/learned" && cp -r "$STATE/." "$out/learned/"
fi
for hours in ${*:-1 3 8}; do
  test -d "$out/after-$hours" && continue
  each=$(echo "$hours $cores" | awk '{print $1 / $2}')
  clusterfirst learn "$out/city" --hours "$each" --threads "$cores" --out "$out/learned"
  rm -rf "$out/copy" && cp -r "$out/learned/model" "$out/copy" && mv "$out/copy" "$out/after-$hours"
done
