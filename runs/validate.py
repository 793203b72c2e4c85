"""Search-free gaps of models on validation instances, paired with the first model.

    python runs/validate.py world|long|towns|xml|uniform|CITY MODEL... [--customers 100]

CITY is `bundled` or a folder.

Instances come from the seed of validation, which no label uses; references are HGS runs
of --seconds, kept in --cache. Whole answers as `solve --method neural --no-polish`
gives them, one thread; with --polish what `solve --time-limit SECONDS` gives. For
choosing: the sets in shared/data are for reporting.
"""

from __future__ import annotations

import argparse
import os
import time
from pathlib import Path

import numpy as np

from clusterfirst.files import bundled_city, read_city
from clusterfirst.learning.labels.sources import city_days, uniform, world
from clusterfirst.learning.training.validation import ValidationPlan, make_validation
from clusterfirst.problem.errors import InputError
from clusterfirst.problem.worlds import WORLDS
from clusterfirst.solving.solver import SolveOptions, solve

CAPACITY = 50  # of the paper's city


def main() -> None:
    """Print one line per model."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("source", help="a kind of map, bundled or a city's folder")
    parser.add_argument("models", nargs="+")
    parser.add_argument("--customers", type=int, default=100)
    parser.add_argument("--capacity", type=int, help="a city's own, or 50")
    parser.add_argument("--count", type=int, default=48)
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("--assign", default="fast")
    parser.add_argument("--polish", type=float, metavar="SECONDS")
    parser.add_argument("--cache", type=Path, default=Path("out/validation"))
    given = parser.parse_args()
    if given.source in WORLDS:
        source = world(seed=0, name=given.source)
    elif given.source == "uniform":
        source = uniform(seed=0, capacity=given.capacity or CAPACITY)
    else:
        try:
            bundled = given.source == "bundled"
            city = bundled_city() if bundled else read_city(given.source)
        except InputError as error:
            parser.error(str(error))
        source = city_days(city, seed=0, capacity=given.capacity)
    plan = ValidationPlan(given.customers, given.count, given.seconds)
    days = make_validation(source, plan, given.cache)
    first = None
    for model in given.models:
        options = SolveOptions(
            method="neural",
            model=model,
            assign=given.assign,
            polish=given.polish is not None,
            threads=1 if given.polish is None else os.cpu_count() or 1,
            time_limit=given.polish or 60.0,
        )
        start = time.process_time()
        costs = [solve(one, options).verdict.cost for one in days.instances]
        spent = (time.process_time() - start) / len(costs)
        gaps = 100 * (np.array(costs) / days.costs - 1)
        first = gaps if first is None else first
        print(
            f"{given.source} N={given.customers} {model}: {_interval(gaps)} %, "
            f"minus the first {_interval(gaps - first)}, {spent:.2f} s of CPU",
            flush=True,
        )


def _interval(values: np.ndarray) -> str:
    half = 1.96 * values.std(ddof=1) / np.sqrt(len(values))
    return f"{values.mean():.2f} +- {half:.2f}"


if __name__ == "__main__":
    main()
