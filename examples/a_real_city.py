"""From raw days to territories: prints the figures of docs/a-real-city.md.

    python examples/a_real_city.py shared/data/loggibud/belem_days_0_89.npz --out belem

The data (loggibud, MIT) is not in this repository. Tables of locations and orders are
written as a team would have them, and everything after that is the command line.
"""

from __future__ import annotations

import argparse
import shlex
from pathlib import Path

import numpy as np

from clusterfirst.cli import main as clusterfirst

FITTED = 60  # days that the city remembers in the first part


def write_tables(file: Path, out: Path) -> None:
    """Write locations.csv and one table of orders per day, as a spreadsheet would."""
    found = np.load(file)
    places = "".join(
        f"a{i},{x:.3f},{y:.3f}\n" for i, (x, y) in enumerate(found["pool_xy_m"])
    )
    (out / "days").mkdir(parents=True)
    (out / "locations.csv").write_text(f"id,x,y\nhub,0,0\n{places}")
    cuts = zip(found["off"][:-1], found["off"][1:], strict=True)
    for number, (begin, end) in enumerate(cuts):
        rows, which = np.unique(found["loc"][begin:end], return_inverse=True)
        demands = np.bincount(which, found["size"][begin:end]).astype(int)
        lines = [
            f"a{row},{demand}\n" for row, demand in zip(rows, demands, strict=True)
        ]
        table = out / "days" / f"day{number:02}.csv"
        table.write_text("id,demand\n" + "".join(lines))


def run(command: str) -> None:
    """Print a command and what it prints."""
    print(f"\n$ clusterfirst {command}", flush=True)
    code = clusterfirst(shlex.split(command))
    if code:
        raise SystemExit(code)


def half_a_day(table: Path, out: Path) -> str:
    """Write half of a day's orders, any of them; return an order of the other half."""
    header, *lines = table.read_text().splitlines()
    order = np.random.default_rng(0).permutation(len(lines))
    half = sorted(order[: len(lines) // 2].tolist())
    out.write_text("\n".join([header, *(lines[i] for i in half)]) + "\n")
    return lines[int(order[-1])]


def main() -> None:
    """Make the city, then ask it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--days", type=int, default=300, help="of the forecast")
    given = parser.parse_args()
    out: Path = given.out
    write_tables(given.file, out)
    city, days = out / "city", out / "days"
    table = f"{out}/locations.csv --depot hub --capacity 180"
    run(f"city init {table} --name belem --out {city}")
    run(f"city add-days {city} {days}")
    run(f"city show {city} --out {out}/city.png --out {out}/days.csv")
    run(f"city check-law {city} --hold-back {90 - FITTED}")
    new, demand = half_a_day(days / "day89.csv", out / "today.csv").split(",")
    run(f"quote {city} --orders {out}/today.csv --id {new} --demand {demand} "
        f"--completions 100 --out {out}/quote.png")  # fmt: skip
    run(f"forecast {city} --days {given.days} --capacity 150,180 "
        f"--out {out}/forecast.png --out {out}/forecast.csv")  # fmt: skip
    run(f"territories {city} --vehicles 10 --out {out}/territories.png")
    run(f"solve {days}/day89.csv --city {city} --familiar 0.2 --time-limit 3 "
        f"--out {out}/day89.csv --out {out}/day89.html --overwrite")  # fmt: skip


if __name__ == "__main__":
    main()
