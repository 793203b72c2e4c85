"""Looking inside: why a customer is on its vehicle, and what moving it would cost.

Prices need no network: the change of the total length when a customer leaves its
route and enters another one at its best place. With a model come the seed that
stands for each vehicle, the latent distances Delta, and the transport plan Y with the
customers it is sure of (the paper fixes those above 0.99, Section 2.4).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from clusterfirst.files.tables import format_records
from clusterfirst.problem.errors import InputError, Problem
from clusterfirst.problem.instance import FloatArray, Instance, IntArray
from clusterfirst.problem.solution import Solution, Verdict, judge

if TYPE_CHECKING:  # numba takes a while to import: only with a model
    from clusterfirst.networks.model_folder import Model

BoolArray = npt.NDArray[np.bool_]
CONFIDENT = 0.99  # tau_high of the paper
MAX_CUSTOMERS = 20_000  # prices are a table of customers by vehicles
CELLS = 4_000_000  # of that computation in memory at a time
_NOBODY: IntArray = np.empty(0, dtype=np.int64)


@dataclass(frozen=True, eq=False)
class Network:
    """What a model says; column j is the vehicle of route j."""

    model: str
    seeds: IntArray  # (R,) customer row that stands for each vehicle, 0: none does
    delta: FloatArray  # (n, R) latent distance; nan: not among the candidates
    plan: FloatArray  # (n, R) share Y of each customer at each vehicle

    @property
    def confident(self) -> BoolArray:
        """(n,) whether the plan is sure of the customer."""
        sure: BoolArray = self.plan.max(axis=1, initial=0.0) > CONFIDENT
        return sure

    @property
    def favourite(self) -> IntArray:
        """(n,) the vehicle with the largest share."""
        most: IntArray = self.plan.argmax(axis=1) if len(self.plan) else _NOBODY
        return most


@dataclass(frozen=True, eq=False)
class Explanation:
    """A solution customer by customer; vehicle j drives route j (from 0)."""

    instance: Instance
    solution: Solution
    verdict: Verdict
    vehicle: IntArray  # (n,) the vehicle each customer got
    price: FloatArray  # (n, R) change of total length if moved there; 0 at its own
    fits: BoolArray  # (n, R) whether its demand fits there
    network: Network | None = None

    @cached_property
    def next_vehicle(self) -> IntArray:
        """(n,) the other vehicle with the least price; -1 if there is no other."""
        if self.price.shape[1] < 2:
            return np.full(len(self.vehicle), -1)
        others = self.price.copy()
        others[np.arange(len(others)), self.vehicle] = np.inf
        least: IntArray = others.argmin(axis=1)
        return least

    @property
    def next_price(self) -> FloatArray:
        """(n,) the price of moving each customer to its next best vehicle."""
        return self._at(self.price, self.next_vehicle)

    def _at(self, table: FloatArray, vehicle: IntArray) -> FloatArray:
        """(n,) the entry of each customer at a vehicle; nan where there is none."""
        if not table.shape[1]:
            return np.full(len(vehicle), np.nan)
        picked = table[np.arange(len(vehicle)), vehicle]
        return np.where(vehicle >= 0, picked, np.nan)

    def rows(self) -> list[dict[str, Any]]:
        """One record per customer, cheapest to move first; vehicles count from 1."""
        there = self.next_vehicle
        fits = self._at(self.fits.astype(np.float64), there)
        columns: dict[str, Any] = {
            "customer": self.instance.ids[1:],
            "demand": self.instance.demands[1:].tolist(),
            "vehicle": (self.vehicle + 1).tolist(),
            "next": [int(v) + 1 if v >= 0 else None for v in there],
            "price": _plain(self.next_price),
            "fits": [None if np.isnan(f) else bool(f) for f in fits],
        }
        if self.network is not None:
            delta, plan = self.network.delta, self.network.plan
            columns |= {
                "delta": _plain(self._at(delta, self.vehicle)),
                "delta_next": _plain(self._at(delta, there)),
                "share": _plain(self._at(plan, self.vehicle)),
                "share_next": _plain(self._at(plan, there)),
                "favourite": (self.network.favourite + 1).tolist(),
                "confident": self.network.confident.tolist(),
            }
        order = np.argsort(np.nan_to_num(self.next_price, nan=np.inf), kind="stable")
        return [{key: column[i] for key, column in columns.items()} for i in order]

    def as_dict(self) -> dict[str, Any]:
        """Everything for JSON; vehicles count from 1."""
        ids = self.instance.ids
        document: dict[str, Any] = {
            "instance": self.instance.name,
            "cost": self.verdict.cost,
            "unit": self.instance.unit,
            "routes": [[ids[c] for c in route] for route in self.solution.routes],
            "loads": list(self.verdict.loads),
            "capacity": self.instance.capacity,
            "customers": self.rows(),
        }
        if self.network is not None:
            seeds = self.network.seeds.tolist()
            document["model"] = self.network.model
            document["seeds"] = [ids[seed] if seed else None for seed in seeds]
        return document

    def as_csv(self) -> str:
        """The rows as a table with a header."""
        return format_records(self.rows())

    def summary(self) -> str:
        """One line: how many customers are debatable."""
        n = len(self.vehicle)
        parts = [f"{n} customers on {len(self.solution.routes)} vehicles"]
        if self.network is not None:
            sure = int(self.network.confident.sum())
            apart = int((self.network.favourite != self.vehicle).sum()) if n else 0
            parts.append(f"{sure} confident and {n - sure} ambiguous")
            parts.append(f"{apart} not on the vehicle the model prefers")
        price = np.where(self.fits, self.price, np.inf)
        price[np.arange(n), self.vehicle] = np.inf
        gain = int((price < -1e-9 * max(1.0, self.verdict.cost)).any(axis=1).sum())
        parts.append(f"{gain} could move at once and shorten the routes")
        return "; ".join(parts)


def explain(
    instance: Instance,
    solution: Solution,
    model: Model | str | Path | None = None,
    *,
    borrow: bool = False,
) -> Explanation:
    """Explain a solution, with a model or by geometry and prices only.

    `model` is a loaded one, the name of a shipped one or a folder; `borrow` lets a
    model of another city use its nearest known locations.
    """
    if solution.vehicles is None:
        solution = Solution(route for route in solution.routes if route)
    verdict = judge(instance, solution)
    wrong = [p for p in verdict.violations if p.code in ("E803", "E804", "E805")]
    wrong += [
        Problem("E802", f"customer {instance.ids[row]}", "no visit", "ask --customer")
        for row in verdict.unserved
    ]
    if wrong:
        raise InputError(wrong)
    if instance.num_customers > MAX_CUSTOMERS:
        got, rule = str(instance.num_customers), f"at most {MAX_CUSTOMERS} here"
        raise InputError(Problem("E401", "customers", got, rule))
    vehicle = np.empty(instance.num_customers, dtype=np.int64)
    load = np.zeros(len(solution.routes), dtype=np.int64)
    for number, route in enumerate(solution.routes):
        vehicle[np.array(route) - 1] = number
        load[number] = instance.demand_units[list(route)].sum()
    room = np.full(len(load), instance.capacity_units)
    if instance.vehicle_units is not None:
        drives = solution.vehicles or range(len(load))
        room = instance.vehicle_units[list(drives)]
    fits = load[None] + instance.demand_units[1:, None] <= room
    fits[np.arange(len(vehicle)), vehicle] = True
    network = None
    if model is not None:
        network = consult(instance, solution, model, borrow=borrow)
    price = prices(instance, solution)
    return Explanation(instance, solution, verdict, vehicle, price, fits, network)


def prices(instance: Instance, solution: Solution) -> FloatArray:
    """(n, R) change of the total length if a customer moves to a route's best place."""
    n, routes = instance.num_customers, solution.routes
    rows = np.arange(1, n + 1)
    price = np.zeros((n, len(routes)))
    if not n:
        return price
    stops = np.concatenate([np.array([0, *route]) for route in routes])
    after = np.concatenate([np.array([*route, 0]) for route in routes])
    sizes = np.array([len(route) + 1 for route in routes])
    starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    leg = instance.lengths(stops, after)
    before, behind = np.zeros(n + 1, np.int64), np.zeros(n + 1, np.int64)
    before[after], behind[stops] = stops, after
    saved = (
        instance.lengths(before[rows], rows)
        + instance.lengths(rows, behind[rows])
        - instance.lengths(before[rows], behind[rows])
    )
    everyone = np.arange(n + 1)
    step = max(1, CELLS // len(stops))
    for first in range(0, n, step):
        some = rows[first : first + step]
        away = instance.lengths(some[:, None], everyone[None])
        back = away if instance.symmetric else instance.lengths(everyone, some[:, None])
        detour = back[:, stops] + away[:, after] - leg  # (step, legs)
        price[first : first + step] = np.minimum.reduceat(detour, starts, axis=1)
    price -= saved[:, None]
    owner = np.zeros(n + 1, np.int64)
    for number, route in enumerate(routes):
        owner[list(route)] = number
    price[rows - 1, owner[rows]] = 0.0
    return price


def consult(
    instance: Instance,
    solution: Solution,
    model: Model | str | Path,
    *,
    borrow: bool = False,
) -> Network:
    """Ask a model about the vehicles of a solution.

    The model picks its own seeds for a fleet of this size; each route is then given
    the seed to which the plan sends most of its customers, no seed twice.
    """
    from scipy.optimize import linear_sum_assignment

    from clusterfirst.networks.model_folder import Model, load_model
    from clusterfirst.networks.neural import NeuralScorer
    from clusterfirst.networks.plan import dense, transport_plan

    loaded = model if isinstance(model, Model) else load_model(model)
    rows = loaded.rows_of(instance, borrow=borrow)
    n, count = instance.num_customers, len(solution.routes)
    seeds = np.zeros(count, dtype=np.int64)
    delta, plan = np.full((n, count), np.nan), np.zeros((n, count))
    if not n:
        return Network(loaded.name, seeds, delta, plan)
    scorer = NeuralScorer(loaded.network, instance, rows, threads=1)
    scores = scorer(max(count, instance.min_vehicles))
    found = transport_plan(instance, scores)  # (n, K)
    together = np.stack([found[np.array(r) - 1].sum(axis=0) for r in solution.routes])
    routes, columns = linear_sum_assignment(together, maximize=True)
    seeds[routes] = scores.seeds[columns]
    plan[:, routes] = found[:, columns]
    delta[:, routes] = dense(scores, np.nan)[:, columns]
    return Network(loaded.name, seeds, delta, plan)


def _plain(values: FloatArray) -> list[float | None]:
    """Numbers for JSON and CSV, where nan is nothing."""
    return [None if np.isnan(v) else float(f"{v:.6g}") for v in values]
