"""The transport plan Y of an answer (the paper, Section 2.3), on numpy.

The same iterations as in `trainable/transport.py`, whose docstring has the mathematics,
for one instance and without gradients.
"""

from __future__ import annotations

import numpy as np

from clusterfirst.problem.clock import Deadline
from clusterfirst.problem.instance import FloatArray, Instance
from clusterfirst.stages.scores import Scores

EPS = 0.001  # the paper's, at inference
ITERATIONS = 1000
TOLERANCE = 5e-4  # of a vehicle
ABSORB_EVERY = 50  # iterations between two steps in the log domain
FACTOR = 1e8  # prices may change by this factor in between
NEGLIGIBLE = 1e-30  # shares of a customer below this are 0 in between
LOOK_EVERY = 20_000_000  # customers x vehicles x iterations between looks at the clock
FAR = 1e3  # cost, for the plan, of a seed that is no candidate


def transport_plan(
    instance: Instance,
    scores: Scores,
    iterations: int = ITERATIONS,
    deadline: Deadline | None = None,
) -> FloatArray:
    """(n, K) shares Y of each customer over the vehicles.

    A deadline ends the iterations early: at N = 5000 all of them would take minutes.
    """
    cost = dense(scores, FAR)
    n, K = cost.shape
    total = int(instance.demand_units.sum())
    slack = max(0, K * instance.capacity_units - total) / instance.capacity_units
    mass = np.append(instance.demand_units[1:] / instance.capacity_units, slack)
    # A constant per row changes nothing but the rounding; the slack row comes last.
    kernel = np.zeros((n + 1, K))
    kernel[:n] = (cost.min(axis=1, keepdims=True, initial=np.inf) - cost) / EPS
    prices = _prices(kernel, mass, iterations, deadline)
    return _shares(kernel[:n] + prices)


def dense(scores: Scores, absent: float) -> FloatArray:
    """(n, K) costs at every seed; `absent` where one is no candidate."""
    if scores.candidates is None:
        return scores.cost
    cost = np.full((len(scores.cost), len(scores.seeds)), absent)
    rows, slots = np.nonzero(scores.candidates >= 0)
    cost[rows, scores.candidates[rows, slots]] = scores.cost[rows, slots]
    return cost


def _prices(
    kernel: FloatArray, mass: FloatArray, iterations: int, deadline: Deadline | None
) -> FloatArray:
    """(K,) prices of the vehicles in units of eps.

    Most iterations are two products of a matrix and a vector: after each step in the
    log domain the plan is absorbed into Y, and factors on its columns do the work of
    the prices until they leave a safe range (Schmitzer, arXiv 1610.06519).
    """
    price, left = np.zeros(kernel.shape[1]), iterations
    turn = max(1, LOOK_EVERY // max(1, kernel.size))
    while left > 0:
        y = _shares(kernel + price)
        load = mass @ y
        if np.abs(load - 1).max(initial=0.0) <= TOLERANCE:
            break
        price -= np.log(load)
        left -= 1
        y = _shares(kernel + price)
        y[y < NEGLIGIBLE] = 0.0  # also keeps slow denormals away
        factor = np.ones_like(price)
        for _ in range(min(ABSORB_EVERY, turn, left)):
            column = (mass / (y @ factor)) @ y
            if np.abs(factor * column - 1).max() <= TOLERANCE:
                left = 0
                break
            fresh = 1 / column
            if fresh.min() < 1 / FACTOR or fresh.max() > FACTOR:
                break  # the next step in the log domain takes it from here
            factor, left = fresh, left - 1
        price += np.log(factor)
        if deadline is not None and deadline.passed():
            break
    return price


def _shares(logits: FloatArray) -> FloatArray:
    """Softmax of each row."""
    shares: FloatArray = np.exp(
        logits - logits.max(axis=1, keepdims=True, initial=-1e9)
    )
    shares /= shares.sum(axis=1, keepdims=True)
    return shares
