#!/bin/sh
# Learn Belem from its own days for eight hours on two cores; run again to go on.
#   runs/learn_belem.sh shared/data/loggibud/belem_days_0_89.npz out/belem [HOURS]
# Days 0..71, then days drawn from their law, make the labels; the newest
# 18 of the 90 are held back by `learn` itself and are in no label. The folder holds
# everything: city/ with its days, learned/ with plan, table, labels, run and model.
set -eu
file=$1 out=$2 hours=${3:-8}
if [ ! -e "$out/city/days.jsonl" ]; then
    rm -rf "$out/tables" "$out/city"
    python - "$file" "$out/tables" <<'PYTHON'
import sys
from pathlib import Path

sys.path.insert(0, "examples")
from a_real_city import write_tables

write_tables(Path(sys.argv[1]), Path(sys.argv[2]))
PYTHON
    clusterfirst city init "$out/tables/locations.csv" --depot hub --capacity 180 \
        --name belem --out "$out/city"
    clusterfirst city add-days "$out/city" "$out/tables/days"
fi
clusterfirst learn "$out/city" --hours "$hours" --out "$out/learned"
