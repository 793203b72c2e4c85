#!/bin/sh
# The general model's ablation at equal steps: one change at a time (runs/ablation/*.toml).
# A variant that is finished is passed over, so run it again to go on.
#
#   runs/ablation.sh PSI CITY100 CITY400 OUT STEPS [VARIANT ...]
#
# PSI: folder of `clusterfirst pretrain bundled`; CITY100, CITY400: labels of the bundled
# city. Trains each VARIANT (default: all) into OUT/VARIANT with seed 0, one thread. Then:
#
#   python runs/validate.py bundled --customers 100 --count 100 OUT/*/model
set -eu
psi=$1 city=$2 large=$3 out=$4 steps=$5
shift 5
here=$(dirname "$0")/ablation
[ $# -gt 0 ] || set -- $(basename -s .toml "$here"/*.toml)
for variant; do
  clusterfirst train --config "$here/$variant.toml" --steps "$steps" --city bundled \
    --psi "$psi" --labels "$city" --labels "$large" --out "$out/$variant" \
    --threads 1 --export "$out/$variant/model"
done
