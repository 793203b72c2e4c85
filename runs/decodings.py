"""Search-free gaps of a model under every decoding and both fleets.

    python runs/decodings.py MODEL FILE.npz [--first 32] [--assign exact] [--limit 5]

FILE is a set of days of the bundled city with reference costs (shared/data/city). One
line per decoding and fleet: mean gap, its 95 % half-width, seconds per instance.
"""

from __future__ import annotations

import argparse
import time

import numpy as np

from clusterfirst.files import bundled_city, read_instances
from clusterfirst.solving.solver import SolveOptions, solve


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model")
    parser.add_argument("file")
    parser.add_argument("--first", type=int, default=32)
    parser.add_argument("--assign", default="exact,sparse,hard,fast")
    parser.add_argument("--fleet", default="kmin,best")
    parser.add_argument("--limit", type=float, default=5.0)
    given = parser.parse_args()
    entries = read_instances(given.file, city=bundled_city())[: given.first]
    print(f"{given.model} on {given.file}, first {len(entries)}, limit {given.limit} s")
    for assign in given.assign.split(","):
        for fleet in given.fleet.split(","):
            options = SolveOptions(
                method="neural",
                model=given.model,
                assign=assign,
                fleet=fleet,
                polish=False,
                time_limit=given.limit,
            )
            gaps, start = [], time.perf_counter()
            for entry in entries:
                cost = solve(entry.instance, options).verdict.cost
                assert entry.cost is not None
                gaps.append(100 * (cost / entry.cost - 1))
            spent = (time.perf_counter() - start) / len(entries)
            half = 1.96 * np.std(gaps, ddof=1) / np.sqrt(len(gaps))
            print(
                f"{assign:7s} {fleet:5s} {np.mean(gaps):6.2f} % +- {half:.2f}, "
                f"largest {np.max(gaps):.2f}, {spent:.2f} s each",
                flush=True,
            )


if __name__ == "__main__":
    main()
