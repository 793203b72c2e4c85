#!/bin/sh
# city-psi: the bundled city with Psi and BCE. Run it again to go on after any stop.
#
#   runs/train_city_psi.sh PSI LABELS OUT [--minutes M ...]
#
# PSI: folder of `clusterfirst pretrain bundled`; LABELS: folder of labels of the
# bundled city (clusterfirst label bundled --customers 100 --seconds 0.2, or
# clusterfirst labels import). Machine: two cores. Seed 0. The gap in OUT/validation.csv
# is on 100 days of a seed of their own; shared/data is for reporting only.
set -eu
psi=$1 labels=$2 out=$3
shift 3
exec clusterfirst train --config city --city bundled --psi "$psi" --labels "$labels" \
  --out "$out" --validate 100 --export "$out/model" --export-weights runs/state/city-psi "$@"
