"""Figures of what a city knows, on the 90 Belem days: each part prints its own.

    python benchmarks/city.py --data shared/data [open law quote-speed quotes forecast
                                      territories learned] [--model FOLDER]

Days 0 to 59 fit the law, 60 to 89 judge it. Wall-clock and CPU seconds are printed side
by side, because a busy machine doubles the one and not the other.
"""

from __future__ import annotations

import argparse
import os
import resource
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np

from clusterfirst.cities.day_law import Wish, fit
from clusterfirst.cities.forecast import ForecastSettings, forecast, lines
from clusterfirst.cities.history import History, PastDay, read_history, write_history
from clusterfirst.cities.law_check import check_law
from clusterfirst.cities.quick_plan import Plan, improved, quick_plan
from clusterfirst.cities.quote import Quoter, QuoteSettings
from clusterfirst.cities.territories import TerritorySettings, find_territories
from clusterfirst.cities.territories import lines as territory_lines
from clusterfirst.files import write_city
from clusterfirst.learning.labels.making import LabelOptions, label, read_labels
from clusterfirst.learning.labels.sources import law_days
from clusterfirst.networks.model_folder import load_model
from clusterfirst.problem.city import City
from clusterfirst.problem.instance import Instance
from clusterfirst.problem.sampling import sample_city
from clusterfirst.problem.solution import Solution, judge
from clusterfirst.solving.familiar import Familiar, solve_familiar
from clusterfirst.solving.many import decode_all
from clusterfirst.solving.options import SolveOptions
from clusterfirst.solving.result import Result

FITTED = 60
WEIGHTS = (0.05, 0.1, 0.2, 0.3, 0.5, 1.0)  # of familiarity
FAMILIAR_ROUNDS = 20_000  # of the search, about a second
QUOTED = 72  # the way of pricing was chosen on days 60 to 67
LEARNED = 72  # days before this one made the labels of runs/state/belem
HGS_SECONDS = 4.0
POLISHED = 6  # times the effort of a quick plan: 0.3 s of an idle core
MODELS = ["general"]  # and those of --model
LONG = 30  # times the effort of a quick plan, for what a quote is compared with


def belem(data: Path) -> History:
    """The 90 days; orders of one address on one day are added up."""
    found = np.load(data / "loggibud" / "belem_days_0_89.npz")
    places = np.vstack([[0.0, 0.0], found["pool_xy_m"]])
    city = City(places, name="belem", capacity=int(found["capacity"]))
    days = []
    for begin, end in zip(found["off"][:-1], found["off"][1:], strict=True):
        rows, which = np.unique(found["loc"][begin:end] + 1, return_inverse=True)
        demands = np.bincount(which, found["size"][begin:end])
        days.append(PastDay(rows.astype(np.int64), demands, None, f"day{len(days):02}"))
    return History(city, tuple(days))


@contextmanager
def timed(what: str) -> Iterator[None]:
    """Print wall-clock and CPU seconds, children's too."""

    def cpu() -> float:
        both = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
        return sum(resource.getrusage(who).ru_utime for who in both)

    begin, used = time.perf_counter(), cpu()
    yield
    wall = time.perf_counter() - begin
    load = os.getloadavg()[0]
    print(f"{what}: {wall:.3g} s, {cpu() - used:.3g} CPU s (load {load:.1f})")


def open_speed(history: History) -> None:
    """A city of 30,000 locations and 1,000 days of 300 orders."""
    rng = np.random.default_rng(0)
    city = sample_city(30_000, seed=1, name="large")
    days = tuple(
        PastDay(rng.choice(30_000, 300, replace=False) + 1, rng.integers(1, 9, 300) / 1)
        for _ in range(1000)
    )
    with tempfile.TemporaryDirectory() as folder:
        for one in (History(city, days), history):
            write_city(folder, one.city)
            write_history(folder, one)
            read_history(folder)
            with timed(f"open {one.city.num_locations} locations, {len(one)} days"):
                read_history(folder)


def law(history: History) -> None:
    """Two-sample tests on days held back: those of the issue, and blind ones.

    Two ways to treat addresses never seen failed on days 60 to 89 before this one was
    kept, so those days were not blind; 30 to 59 chose nothing.
    """
    for fitted, held in ((FITTED, len(history) - FITTED), (30, 30)):
        known = history.part(0, fitted + held)
        print(f"fitted on days 0..{fitted - 1}, judged on {fitted}..{len(known) - 1}")
        with timed("check of the law"):
            found = check_law(known, held)
        for each in found:
            real, drawn = each.real.mean(), each.drawn.mean()
            words = "passed" if each.passed else "REFUSED"
            p = each.p_value
            print(f"{each.measure}: {real:.5g} {drawn:.5g} p {p:.3f} {words}")


def quote_speed(history: History) -> None:
    """A place in a plan of 1,000 orders; a whole quote at N = 100."""
    fitted = fit(history)
    day = fitted.draw(7, 1, Wish(customers=1000))
    quoter = Quoter(fitted, day, settings=QuoteSettings(completions=1))
    free = np.setdiff1d(np.arange(1, 1000), day.city_rows)[:500].tolist()
    quoter.now(free[0], 3)
    with timed(f"{len(free)} insertion prices at 1,000 orders"):
        for row in free:
            quoter.now(row, 3)
    half = fitted.draw(7, 0, Wish(customers=50, capacity=60))
    settings = QuoteSettings(wish=Wish(customers=100))
    row = int(np.setdiff1d(free, half.city_rows)[0])
    Quoter(fitted, half, settings=QuoteSettings(2)).expected(row, 3)  # compiled by now
    quoter = Quoter(fitted, half, settings=settings)
    with timed("expected price over 200 completions, N = 100"):
        quoter.expected(row, 3)
    with timed("another order of the same day"):
        quoter.expected(row + 1 if row + 1 not in half.city_rows else row + 2, 3)


def quotes(history: History, days: int = 6, each: int = 4, ends: int = 20) -> None:
    """Quotes at half of a day against what the order adds to the whole day.

    The halves are random: Belem's orders have no time of day.
    """
    from scipy.stats import spearmanr

    fitted = fit(history.part(0, FITTED))
    rows = []
    for number in range(QUOTED, QUOTED + days):
        whole = history.instance(number)
        order = np.random.default_rng(number).permutation(whole.num_customers) + 1
        half = order[: len(order) // 2]
        assert whole.city_rows is not None
        taken = half[each:]
        today = history.city.day(whole.city_rows[taken], whole.demands[taken])
        quoter = Quoter(fitted, today, settings=QuoteSettings(ends))
        for customer in half[:each].tolist():
            row, demand = int(whole.city_rows[customer]), float(whole.demands[customer])
            low, middle, high = quoter.expected(row, demand).quantiles
            naive = quoter.now(row, demand).price
            rows.append([true_price(whole, customer), naive, low, middle, high])
    true, naive, low, middle, high = np.array(rows).T
    print(f"{len(true)} orders on {days} days, {ends} completions")
    print(f"true price: mean {true.mean():.0f}, median {np.median(true):.0f}")
    for name, guess in (("naive insertion", naive), ("p50 of the quote", middle)):
        rank, off = spearmanr(guess, true)[0], np.abs(guess - true)
        print(
            f"{name}: mean {guess.mean():.0f}, rank correlation {rank:.2f}, "
            f"absolute error {off.mean():.0f} (median {np.median(off):.0f})"
        )
    inside = float(((low <= true) & (true <= high)).mean())
    print(f"true price between p10 and p90: {inside:.0%}; below p50: "
          f"{float((true <= middle).mean()):.0%}")  # fmt: skip


def true_price(whole: Instance, customer: int) -> float:
    """What a customer adds to a day, by long searches that start from each other."""
    keep = np.delete(np.arange(whole.num_customers + 1), customer)
    order = [*keep.tolist(), customer]
    assert whole.coords is not None
    full = whole.replace(
        demands=whole.demands[order], coords=whole.coords[order],
        ids=tuple(whole.ids[i] for i in order), city_rows=None, city_hash="",
    )  # fmt: skip
    last = full.num_customers
    small = full.replace(
        demands=full.demands[:-1], coords=full.coords[:-1], ids=full.ids[:-1]
    )
    with_it = quick_plan(full, 0, LONG)
    without = min(
        improved(small, _passed_by(with_it, last), 1, LONG),
        quick_plan(small, 2, LONG),
        key=lambda plan: plan.cost,
    )
    again = improved(full, [*without.routes, [last]], 3, LONG)
    best = min(with_it, again, key=lambda plan: plan.cost)
    spared = judge(small, Solution(_passed_by(best, last))).cost
    return best.cost - min(without.cost, spared)


def _passed_by(plan: Plan, customer: int) -> list[list[int]]:
    routes = [[c for c in route if c != customer] for route in plan.routes]
    return [route for route in routes if route]


def forecasts(history: History) -> None:
    """1,000 days of N = 100, and days as they are."""
    fitted = fit(history)
    with timed("forecast of 1,000 days, N = 100"):
        found = forecast(
            fitted, ForecastSettings(wish=Wish(customers=100, capacity=60))
        )
    print("\n".join(lines(found)))


def territories(history: History, days: int = 6) -> None:
    """Familiarity against length on days that shaped no area, for several prices."""
    with timed("territories of 10 vehicles"):
        found = find_territories(history, TerritorySettings(10))
    print("\n".join(territory_lines(found)))
    held = [history.instance(len(history) - 1 - i) for i in range(days)]
    print("weight  at home  of the free plan's strangers  longer")
    for weight in WEIGHTS:
        rows = []
        for day in held:
            area = found.areas.of_day(day)
            options = SolveOptions(iterations=FAMILIAR_ROUNDS, threads=1)
            result = solve_familiar(day, Familiar(area, weight), options)
            told = result.details["familiar"]
            before, now = told["familiarity_of_the_free_plan"], told["familiarity"]
            rows.append((now, (now - before) / (1 - before), told["longer"]))
        now, won, longer = np.mean(rows, axis=0)
        error = np.std([row[2] for row in rows], ddof=1) / len(rows) ** 0.5
        print(f"{weight:6g}  {now:7.1%}  {won:28.1%}  {longer:+.2%} +- {2 * error:.2%}")


def learned(history: History) -> None:
    """Models on days 72..89, which are in no label and chose nothing: above HGS."""
    source = law_days(fit(history), seed=0)
    days = [history.instance(number) for number in range(LEARNED, len(history))]
    with tempfile.TemporaryDirectory() as folder:
        options = LabelOptions(customers=0, count=len(history), seconds=HGS_SECONDS)
        label(source, Path(folder), replace(options, count=len(days), first=LEARNED))
        found = read_labels(Path(folder))
        costs = {}
        for group in found.groups.values():
            costs |= dict(zip(group.index.tolist(), group.cost.tolist(), strict=True))
    best = np.array([costs[number] for number in range(LEARNED, len(history))])
    first: dict[str, np.ndarray] = {}
    for name in MODELS:
        network = load_model(name).network
        answers = decode_all(network, days)
        used = time.process_time()
        plans = [
            improved(day, answer.solution.routes, 0, POLISHED)
            for day, answer in zip(days, answers, strict=True)
            if isinstance(answer, Result)
        ]
        used = (time.process_time() - used) / len(days)
        rows = {
            "search-free": [a.verdict.cost for a in answers if isinstance(a, Result)],
            f"after {used:.2f} CPU s of polish": [plan.cost for plan in plans],
        }
        for what, lengths in rows.items():
            gap = 100 * (np.array(lengths) / best - 1)
            kind = what.split()[0]
            more = gap - first.setdefault(kind, gap)
            error = 2 * more.std(ddof=1) / len(more) ** 0.5
            print(
                f"{name} {what}: {gap.mean():.2f} % above HGS {HGS_SECONDS:g} s, minus "
                f"the first {more.mean():+.2f} +- {error:.2f}", flush=True
            )  # fmt: skip


PARTS: dict[str, Callable[[History], None]] = {
    "open": open_speed,
    "law": law,
    "quote-speed": quote_speed,
    "quotes": quotes,
    "forecast": forecasts,
    "territories": territories,
    "learned": learned,
}


def main() -> None:
    """Run the parts that were asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=Path("shared/data"))
    parser.add_argument("parts", nargs="*", choices=[*PARTS], default=[])
    parser.add_argument("--model", action="append", default=[], help="for `learned`")
    given = parser.parse_args()
    MODELS.extend(given.model)
    history = belem(given.data)
    for name in given.parts or PARTS:
        PARTS[name](history)


if __name__ == "__main__":
    main()
