#!/bin/sh
# Labels that the mix `world` has few of: long routes, towns along roads, the law of XML100,
# N = 200 to 1000 of many worlds. Fixed rounds of 1,485, each its own seed; run it again to
# go on after any stop. About 8 CPU minutes a round; set aside a copy of the repository for
# it, since workers load the code of the moment.
#
#   runs/label_missing.sh OUT [FIRST LAST] [WORKERS]
#
# labels/more holds a part of round 4, round 5 and most of 6 beside three older ones (seeds 20261119 to 20261121):
#   clusterfirst labels merge labels/more OUT/* --out labels/new
set -eu
out=$1 first=${2:-4} last=${3:-19} workers=${4:-2}
round=$first
while [ "$round" -le "$last" ]; do
  while read -r source customers count teacher seconds; do
    clusterfirst label "$source" --out "$out/$source" --customers "$customers" \
      --count "$count" --teacher "$teacher" --seconds "$seconds" \
      --seed $((20261118 + round)) --workers "$workers" </dev/null
  done <<'JOBS'
long 200 400 polish 0.3
towns 200 250 polish 0.3
xml 100 300 hgs 0.2
xml 200 200 polish 0.3
world 200 150 polish 0.3
long 400 60 polish 0.5
towns 400 60 polish 0.5
world 400 50 polish 0.5
long 1000 15 polish 1.5
JOBS
  round=$((round + 1))
done
