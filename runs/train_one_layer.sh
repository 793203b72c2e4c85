#!/bin/sh
# The paper's one-layer ablation: Psi or xy, with or without BCE, at equal passes.
#
#   runs/train_one_layer.sh PSI LABELS OUT STEPS
#
# Trains the four variants one after the other into OUT/psi-bce, OUT/psi-plain,
# OUT/xy-bce and OUT/xy-plain with the same seed, batches and number of steps; a
# variant that is finished is passed over, so run it again to go on. THREADS threads
# (two unless told), seed 0.
set -eu
psi=$1 labels=$2 out=$3 steps=$4
here=$(dirname "$0")
for variant in psi-bce psi-plain xy-bce xy-plain; do
  clusterfirst train --config "$here/one-layer/$variant.toml" --city bundled \
    --psi "$psi" --labels "$labels" --steps "$steps" --out "$out/$variant" \
    --threads "${THREADS:-2}" --validate 100 --export "$out/$variant/model"
  tail -n 1 "$out/$variant/validation.csv"
done
