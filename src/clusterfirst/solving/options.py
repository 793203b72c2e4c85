"""What to run and when to stop: methods by name, and the checked options of `solve`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import Enum
from importlib import import_module
from typing import TYPE_CHECKING, Any

from clusterfirst.problem.errors import InputError, broken_rules
from clusterfirst.problem.machine import usable_cores

if TYPE_CHECKING:
    from clusterfirst.stages.search_state import SearchState

OUTSIDE = "cmd:"  # an outside program; its words follow


class Kind(Enum):
    """What a method is, and so how it is called."""

    SCORES = "seeds and costs, decoded by the shared stages"  # run(state, options)
    ROUTES = "routes, built by hand"  # run(state)
    PEER = "somebody else's solver, run as it is"  # run(state, name)


@dataclass(frozen=True)
class Method:
    """One entry of the table; the function is imported when it is first called."""

    run: str  # module:function
    kind: Kind

    def load(self) -> Callable[..., Any]:
        """Import the function."""
        module, function = self.run.split(":")
        loaded: Callable[..., Any] = getattr(import_module(module), function)
        return loaded


_PEER = Method("clusterfirst.learning.experts.peers:offer_peer", Kind.PEER)


METHODS = {
    "fisher-jaikumar": Method(
        "clusterfirst.solving.decoding:fisher_jaikumar", Kind.SCORES
    ),
    "sweep": Method("clusterfirst.stages.classical.sweep:sweep", Kind.ROUTES),
    "petal": Method("clusterfirst.stages.classical.petal:petal", Kind.ROUTES),
    "savings": Method("clusterfirst.stages.classical.savings:savings", Kind.ROUTES),
    "neural": Method("clusterfirst.solving.neural:neural", Kind.SCORES),
    "hgs": _PEER,
    "pyvrp": _PEER,
    "ortools": _PEER,
    "vroom": _PEER,
    OUTSIDE: _PEER,
}


def find_method(name: str) -> Method | None:
    """The entry of a name, or of any `cmd:PROGRAM ...`; None if there is none."""
    return METHODS.get(OUTSIDE if name.startswith(OUTSIDE) else name)


def run_method(state: SearchState, name: str, options: object = None) -> None:
    """Let a method offer its routes to a search; `options` are those of `solve`."""
    method = find_method(name)
    assert method is not None  # the options were checked
    run = method.load()
    if method.kind is Kind.SCORES:
        run(state, options)
    elif method.kind is Kind.PEER:
        run(state, name)
    else:
        run(state)


ASSIGNMENTS = ("exact", "sparse", "hard", "fast")
FLEETS = ("kmin", "best")
NEW_LOCATIONS = ("refuse", "nearest")
AUTO = "auto"  # the method that measurements say is best: first_method.py
TIME_LIMITS = (0.05, 86_400.0)
JUDGING = 5e-6  # seconds per customer kept for the judge, on a busy machine
MOST_SEED_SETS = 1000
MOST_ITERATIONS = 10**12
MOST_THREADS = 256
MOST_MOVES = 100


@dataclass(frozen=True)
class DecodingSettings:
    """How scores become routes: fleets, assignment, repair."""

    assign: str = "fast"
    fleet: str = "best"
    seed: int = 0
    # What Sections 2.2 to 2.4 of the paper print and nothing of ours: the decoding of
    # `clusterfirst paper`. docs/reading-the-paper.md lists what else we do, and why.
    printed: bool = False
    rounds: int = 10  # of one fast assignment: see regrouping.py
    mip_gap: float = 0.001  # at which exact, sparse and hard assignments may stop
    max_nodes: int = 200  # branch-and-bound nodes of one when no clock runs
    assign_share: float = 0.4  # of the time left, for one of them
    fast_share: float = 0.8  # of the time left, so that a failure can be repaired
    closing_share: float = 0.3  # of the time left, to choose among seeds to spare
    tight: float = 0.985  # load of K_min vehicles above which K_min + 2 is tried too
    many_vehicles: int = 200  # of which one more makes no difference


@dataclass(frozen=True)
class NeuralSettings:
    """What the network is asked for: weights, seed sets, fleets, moved seeds."""

    decoding: DecodingSettings = DecodingSettings()
    model: str | None = None  # a name or a folder; None: the default model
    seed_sets: int | None = None  # sets of seeds that are tried; None: as many as pay
    together: int = 3  # so many are decoded before the best of them are moved
    moved_sets: int = 2  # answers whose seeds move
    few_vehicles: int = 25  # up to which several seed sets pay: elsewhere one set is
    # as good as the next, because its errors are in one place and another's in another
    moves: int = 2  # times the seeds move to the middles of the routes found
    threads: int = 1
    new_locations: str = "refuse"  # or "nearest": borrow the nearest known location
    seed_noise: float = 0.5  # Gumbel noise on the seed logits after the first seed set
    sets_before_pool: float = 0.7  # of the time; the rest recombines their routes
    plan_share: float = 0.3  # of the time left may go into one transport plan
    more_fleets: int = 4  # larger fleets tried in turn if all before failed
    fleet_step: float = 0.03
    few_forced: float = 0.002  # of the customers; a fleet that forces more is too small
    worth_moving: float = 0.01  # routes longer by this share are not tried further
    thorough: bool = True  # make the best assignment again, as well as possible
    # More seeds than vehicles from so many customers on, so that every quarter of a map
    # has enough: N = 500 gains nothing, N = 100 loses half a point (log/).
    spare: tuple[tuple[int, float], ...] = ((1000, 0.09), (2000, 0.2))

    @property
    def recombines(self) -> bool:
        """Whether the routes of all answers are put together in the end."""
        return (self.seed_sets or 1) > self.together


@dataclass(frozen=True)
class SolveOptions:
    """What to run and when to stop.

    Parameters
    ----------
    method
        "auto": the start that measurements say is best for the number of customers
        and the time (Fisher-Jaikumar without polish or by counts); or one by name.
    time_limit
        Wall-clock seconds per instance; None: see `default_time_limit`.
    iterations
        Stop by counts instead: no clock is looked at (unless a time limit is given
        too), and the same seed gives the same routes.
    assign
        exact, sparse, hard or fast; None: the method's own choice.
    fleet
        "kmin" uses as few vehicles as fit, "best" also one more, and two more where
        the load is above 98.5 % (fast assignment).
    polish
        Improve the method's routes by local search until the time is up; peers run
        as they are.
    threads
        Of the networks and the polish, whose answer depends on them with
        `iterations`; None: all cores that this process may use.
    model
        Weights for the neural method: a name or a folder.
    seed_sets
        Of the neural method: seed sets to try, the first without noise, three
        at a time, whose best go on; of more than three the best set of all their routes
        is looked for. None: three without a search and up to 25 vehicles, else one.
    recentre
        Of the neural method: times the seeds move to the middles of the routes found
        and everything is scored again; the best answer counts. 0 is the paper's way.
    new_locations
        What a model of one city does with locations it does not know: "refuse", or
        "nearest" to borrow what it knows of the nearest one.
    """

    method: str = AUTO
    time_limit: float | None = None
    iterations: int | None = None
    seed: int = 0
    assign: str | None = None
    fleet: str = "best"
    polish: bool = True
    threads: int | None = None
    model: str | None = None
    seed_sets: int | None = None
    recentre: int = 2
    new_locations: str = "refuse"

    @property
    def polishes(self) -> bool:
        """Whether local search follows the method."""
        return self.polish and not self.is_peer

    @property
    def is_peer(self) -> bool:
        """Whether somebody else's solver runs, as it is."""
        method = find_method(self.method)
        return method is not None and method.kind is Kind.PEER

    @property
    def cores(self) -> int:
        """The number of threads."""
        usable = min(len(usable_cores()), MOST_THREADS)
        return usable if self.threads is None else self.threads

    @property
    def decoding(self) -> DecodingSettings:
        """How scores become routes."""
        return DecodingSettings(self.assign or "fast", self.fleet, self.seed)

    @property
    def neural(self) -> NeuralSettings:
        """What the network is asked for."""
        alone = not self.polish and self.decoding.assign == "fast"
        return NeuralSettings(
            self.decoding,
            self.model,
            self.seed_sets if alone else self.seed_sets or 1,
            moves=self.recentre,
            threads=self.cores,
            new_locations=self.new_locations,
        )

    def __post_init__(self) -> None:
        limit, count, threads = self.time_limit, self.iterations, self.threads
        low, high = TIME_LIMITS
        in_time = limit is None or (_is_number(limit) and low <= limit <= high)
        countable = count is None or (
            _is_whole(count) and 1 <= count <= MOST_ITERATIONS
        )
        seeded = _is_whole(self.seed) and 0 <= self.seed < 2**63
        assigns = self.assign is None or self.assign in ASSIGNMENTS
        asked = 1 if self.seed_sets is None else self.seed_sets
        sets = _is_whole(asked) and 1 <= asked <= MOST_SEED_SETS
        sets = sets and (asked == 1 or self.method == "neural")
        sets_rule = f"1 to {MOST_SEED_SETS}, above 1 for the method neural only"
        moves = _is_whole(self.recentre) and 0 <= self.recentre <= MOST_MOVES
        known = self.new_locations in NEW_LOCATIONS
        threaded = threads is None or (
            _is_whole(threads) and 1 <= threads <= MOST_THREADS
        )
        known_method = self.method == AUTO or find_method(self.method) is not None
        checks = {
            "method": (known_method, _one_of((AUTO, *METHODS))),
            "time_limit": (in_time, f"{low:g} to {high:g} seconds"),
            "iterations": (countable, "a whole number, 1 to 10^12"),
            "seed": (seeded, "0 to 2^63-1"),
            "assign": (assigns, _one_of(ASSIGNMENTS)),
            "fleet": (self.fleet in FLEETS, _one_of(FLEETS)),
            "threads": (threaded, f"1 to {MOST_THREADS}"),
            "seed_sets": (sets, sets_rule),
            "recentre": (moves, f"0 to {MOST_MOVES}"),
            "new_locations": (known, _one_of(NEW_LOCATIONS)),
        }
        timed = {"time_limit": checks.pop("time_limit")}
        broken = [*broken_rules(self, timed, "E402"), *broken_rules(self, checks)]
        if broken:
            raise InputError(broken)


def _one_of(names: Iterable[str]) -> str:
    return f"one of {', '.join(names)}"


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
