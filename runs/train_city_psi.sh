#!/bin/sh
# city-psi: the bundled city with Psi, relative geometry and BCE, from the general weights.
# Run it again to go on after any stop.
#
#   runs/train_city_psi.sh PSI LABELS LARGE OUT [--minutes M ...]
#
# PSI: folder of `clusterfirst pretrain bundled`; LABELS, LARGE: folders of labels of the
# bundled city with 100 and with 400 customers (clusterfirst label bundled --customers 100
# --seconds 0.2, or clusterfirst labels import). Seed 0. Validation: days of a seed of
# their own; shared/data is for reporting only.
set -eu
psi=$1 labels=$2 large=$3 out=$4
shift 4
exec clusterfirst train --config city --init general --steps 3800 --city bundled \
  --psi "$psi" --labels "$labels" --labels "$large" --out "$out" \
  --export "$out/model" --export-weights runs/state/city-psi "$@"
