#!/bin/sh
# general: relative geometry, any map. Run it again to go on after any stop.
#
#   runs/train_general.sh WORLD CITY100 CITY400 OUT [--minutes M ...]
#
# WORLD: clusterfirst label world --seed 20261115 --customers 100|200|400|1000 (labels/world
# in this repository is a part of it); CITY100, CITY400: labels of the bundled city, made
# here or imported. Machine: two cores. Validation: days and world instances of a seed of their own;
# shared/data is for reporting only.
set -eu
world=$1 city=$2 large=$3 out=$4
shift 4
exec clusterfirst train --config general --labels "$city" --labels "$large" \
  --labels "$world" \
  --out "$out" --export "$out/model" --export-weights runs/state/general "$@"
