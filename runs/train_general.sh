#!/bin/sh
# general: relative geometry, any map; from the published labels to a model folder.
# Run it again to go on after any stop: a stage that is done is passed over.
#
#   runs/train_general.sh OUT [--threads 2] [--minutes M]
#
# Two stages, both from runs/general/*.toml: `long`, from random weights, with a constant
# rate (35,000 steps, about 1.1 million passes: 14 core-hours), and `fall`, begun with its
# averaged weights, in which the rate falls to zero (6,600 steps, 2.5 core-hours). Both use
# all of labels/ but the clustered city. Labels of long routes, towns, XML-like maps and the
# bundled city weigh more than once, because there are few of them.
#
# OUT/model is the model, runs/state/general its averaged weights. Compare it with the
# shipped one on validation instances before it replaces src/clusterfirst/models/general:
#
#   python runs/validate.py bundled general OUT/model --customers 100 --count 100
#   python runs/validate.py world   general OUT/model --customers 100 --count 100
set -eu
out=$1
shift
here=$(dirname "$0")
labels=$here/../labels
set -- "$@" --labels "$labels/world"
for often in city city city city uniform250 uniform250 long long more more; do
  set -- "$@" --labels "$labels/$often"
done
clusterfirst train --config "$here/general/long.toml" --out "$out/long" \
  --export-weights "$out/averaged" "$@"
clusterfirst train --config "$here/general/fall.toml" --init "$out/averaged" \
  --out "$out/fall" --export "$out/model" --export-weights "$here/state/general" "$@"
