"""What each step of ours is worth beside the paper's decoding, on the same days.

    python benchmarks/deviations.py --customers 100 --count 40 --model general

Every row takes one step of the default back; the last rows are the paper's decoding as
printed. Per cent of the default's length, paired by day, no search between routes.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from unittest import mock

import numpy as np

from clusterfirst import Instance, bundled_city, sample_day, sample_world
from clusterfirst.networks import neural as scoring
from clusterfirst.problem.clock import Deadline
from clusterfirst.solving.canonical import canonical
from clusterfirst.solving.neural import run_network
from clusterfirst.solving.options import DecodingSettings, NeuralSettings
from clusterfirst.solving.solver import warm_up
from clusterfirst.stages.search_state import SearchState

DAYS_SEED = 2026_18
OURS = NeuralSettings()
PRINTED = replace(OURS, decoding=DecodingSettings("exact", "kmin", printed=True))


def algorithm_1() -> AbstractContextManager[object]:
    """Seeds as printed: vehicles filled to Q among all, nobody fades."""
    pick = scoring.NeuralScorer.pick

    def printed(self: scoring.NeuralScorer, *given: float) -> object:
        ours = self.scoring
        self.scoring = replace(ours, printed=True)
        try:
            return pick(self, *given)
        finally:
            self.scoring = ours

    return mock.patch.object(scoring.NeuralScorer, "pick", printed)


def without_detours() -> AbstractContextManager[object]:
    """The latent distance alone."""
    return mock.patch.object(scoring, "DETOUR_WEIGHT", 0.0)


def _decoding(**changes: object) -> NeuralSettings:
    return replace(OURS, decoding=replace(OURS.decoding, **changes))


WAYS: dict[str, tuple[NeuralSettings, Callable[[], AbstractContextManager[object]]]] = {
    "default": (OURS, nullcontext),
    "no share of the detour": (OURS, without_detours),
    "seeds by Algorithm 1": (OURS, algorithm_1),
    "seeds stay where they are": (replace(OURS, moves=0), nullcontext),
    "K_min alone": (_decoding(fleet="kmin"), nullcontext),
    "HiGHS to 0.1 % instead of fast": (_decoding(assign="exact"), nullcontext),
    "printed, exact, K_min": (PRINTED, nullcontext),
    "printed, exact, best of K_min and K_min + 1": (
        replace(PRINTED, decoding=replace(PRINTED.decoding, fleet="best")),
        nullcontext,
    ),
}


def length(day: Instance, settings: NeuralSettings, seconds: float) -> float:
    """Routes of one decoding; nan where it has none."""
    state = SearchState(canonical(day).instance, Deadline.after(seconds))
    run_network(state, settings)
    found = state.best is not None and not state.details.get("fallbacks")
    return float(state.best_cost) if found else float("nan")


def main() -> None:
    """Print one line for each way."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--customers", type=int, default=100)
    parser.add_argument("--count", type=int, default=40)
    parser.add_argument("--model", default="general")
    parser.add_argument("--seconds", type=float, default=60.0)
    given = parser.parse_args()
    warm_up("neural", given.model)
    lengths: dict[str, list[float]] = {way: [] for way in WAYS}
    for index in range(given.count):
        if given.model == "general":
            day = sample_world(given.customers, seed=DAYS_SEED, index=index)
        else:
            day = sample_day(
                bundled_city(), given.customers, seed=DAYS_SEED, index=index
            )
        for way, (settings, patched) in WAYS.items():
            with patched():
                chosen = replace(settings, model=given.model)
                lengths[way].append(length(day, chosen, given.seconds))
    usual = np.array(lengths["default"])
    for way, found in lengths.items():
        ratio = 100 * (np.array(found) / usual - 1)
        known = ratio[np.isfinite(ratio)]
        half = 1.96 * known.std(ddof=1) / len(known) ** 0.5 if len(known) > 1 else 0
        print(f"{way:45s} {known.mean():+6.2f} +- {half:.2f} % ({len(known)} days)")
    print(f"load {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
