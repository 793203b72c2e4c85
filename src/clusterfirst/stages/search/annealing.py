"""Simulated annealing with small steps and, now and then, a large one."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from clusterfirst.problem.instance import FloatArray
from clusterfirst.stages.compiled import inlined, kernel, random
from clusterfirst.stages.search.linked import keep_best
from clusterfirst.stages.search.moves import (
    CROSS,
    EXCHANGE,
    OPEN,
    STRING,
    SWAP,
    random_move,
)
from clusterfirst.stages.search.regions import Region
from clusterfirst.stages.search.ruin_recreate import ruin_and_recreate
from clusterfirst.stages.search.schedule import PolishSettings


class Plan(NamedTuple):
    """What the kernels are told: shares of the moves, sizes of the ruins."""

    kinds: npt.NDArray[np.uint8]  # (256,) the kind of move of a random byte
    excess: FloatArray  # (512,) quantiles of the exponential law
    moves: int  # small steps of one iteration
    partners: np.uint64  # nearest customers a move may join
    ruins: float  # ruin-and-recreate steps per iteration
    removed: float
    longest: float
    split: float
    keep_more: float
    blink: float


def make_plan(settings: PolishSettings, region: Region) -> Plan:
    """Return what the kernels are told about a region."""
    shares = {
        STRING: settings.strings,
        SWAP: settings.swaps,
        CROSS: settings.crossings,
        EXCHANGE: settings.exchanges,
    }
    kinds = np.full(256, OPEN, dtype=np.uint8)
    at = 0
    for kind, share in shares.items():
        kinds[at : at + round(256 * share)] = kind
        at += round(256 * share)
    per_route = (len(region.members) - 1) / max(
        1, int(np.count_nonzero(region.tours.size))
    )
    return Plan(
        kinds=kinds,
        excess=-np.log((np.arange(512) + 0.5) / 512),
        moves=settings.moves,
        partners=np.uint64(min(settings.partners, region.data.near.shape[1])),
        ruins=settings.ruins,
        removed=settings.removed,
        longest=float(min(settings.longest, per_route)),
        split=settings.split,
        keep_more=settings.keep_more,
        blink=settings.blink,
    )


@inlined
def run(
    data: Any, limits: Any, state: Any, plan: Any, iterations: int, temperature: float
) -> None:
    """Run so many iterations at one temperature, with limits or (None) without."""
    for _ in range(iterations):
        for _ in range(plan.moves):
            random_move(data, limits, state, plan, temperature)
        rest = plan.ruins
        while rest > 0.0 and (rest >= 1.0 or random(state[1].rng) < rest):
            ruin_and_recreate(data, limits, state, plan, temperature)
            rest -= 1.0
    keep_best(state[0], state[1])


@kernel
def anneal(
    data: Any, state: Any, plan: Any, iterations: int, temperature: float
) -> None:
    """Run so many iterations of a plain day at one temperature."""
    run(data, None, state, plan, iterations, temperature)
