"""What to run and when to stop: the options of `solve`, checked when they are made."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from clusterfirst.errors import InputError, Problem

ASSIGNMENTS = ("exact", "sparse", "hard", "fast")
FLEETS = ("kmin", "best")
NEW_LOCATIONS = ("refuse", "nearest")
DEFAULT_METHOD = "fisher-jaikumar"
TIME_LIMITS = (0.05, 86_400.0)
MOST_SHOTS = 1000
MOST_MOVES = 100
MOST_REASSIGNMENTS = 100_000

PEERS = "clusterfirst.experts.peers:"
# Method name -> "module:function"; the function takes one Work. Imported when used.
METHODS: dict[str, str] = {
    "fisher-jaikumar": "clusterfirst.decoding:fisher_jaikumar",
    "sweep": "clusterfirst.classical.sweep:sweep",
    "petal": "clusterfirst.classical.petal:petal",
    "savings": "clusterfirst.classical.savings:savings",
    "neural": "clusterfirst.decoding:neural",
    "hgs": "clusterfirst.experts.peers:hgs",
    "pyvrp": "clusterfirst.experts.peers:pyvrp",
    "ortools": "clusterfirst.experts.peers:ortools",
    "vroom": "clusterfirst.experts.peers:vroom",
    # cmd:PROGRAM ...; the function takes the words too
    "cmd:": "clusterfirst.experts.peers:outside_program",
}


@dataclass(frozen=True)
class SolveOptions:
    """What to run and when to stop.

    Parameters
    ----------
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
        `iterations`.
    model
        Weights for the neural method: a name or a folder.
    shots
        Of the neural method: seed sets to try at each fleet size, the first without
        noise; the best set of all their routes is looked for.
    recentre
        Of the neural method: times the seeds move to the middles of the routes found
        and everything is scored again; the best answer counts. 0 is the paper's way.
    reassign
        Times the assignment is solved again after the method, with the lengths that
        customers add to the routes found (`search.reassign`); 0 is the paper's way.
    new_locations
        What a model of one city does with locations it does not know: "refuse", or
        "nearest" to borrow what it knows of the nearest one.
    """

    method: str = DEFAULT_METHOD
    time_limit: float | None = None
    iterations: int | None = None
    seed: int = 0
    assign: str | None = None
    fleet: str = "best"
    polish: bool = True
    threads: int = 2
    model: str | None = None
    shots: int = 1
    recentre: int = 2
    reassign: int = 0
    new_locations: str = "refuse"

    @property
    def polishes(self) -> bool:
        """Whether local search follows the method."""
        return self.polish and not self.is_peer

    @property
    def is_peer(self) -> bool:
        """Whether somebody else's solver runs, as it is."""
        return METHODS.get(key_of(self.method), "").startswith(PEERS)

    def __post_init__(self) -> None:
        limit, count, threads = self.time_limit, self.iterations, self.threads
        low, high = TIME_LIMITS
        in_time = limit is None or (_is_number(limit) and low <= limit <= high)
        countable = count is None or (_is_whole(count) and 1 <= count <= 10**12)
        seeded = _is_whole(self.seed) and 0 <= self.seed < 2**63
        assigns = self.assign is None or self.assign in ASSIGNMENTS
        shots = _is_whole(self.shots) and 1 <= self.shots <= MOST_SHOTS
        shots = shots and (self.shots == 1 or self.method == "neural")
        moves = _is_whole(self.recentre) and 0 <= self.recentre <= MOST_MOVES
        again = _is_whole(self.reassign) and 0 <= self.reassign <= MOST_REASSIGNMENTS
        again = again and (self.reassign == 0 or not self.is_peer)
        known = self.new_locations in NEW_LOCATIONS
        checks = {
            "method": (key_of(self.method) in METHODS, _one_of(METHODS)),
            "time_limit": (in_time, f"{low:g} to {high:g} seconds"),
            "iterations": (countable, "a whole number of at least 1"),
            "seed": (seeded, "0 to 2^63-1"),
            "assign": (assigns, _one_of(ASSIGNMENTS)),
            "fleet": (self.fleet in FLEETS, _one_of(FLEETS)),
            "threads": (_is_whole(threads) and 1 <= threads <= 64, "1 to 64"),
            "shots": (shots, f"1 to {MOST_SHOTS}, above 1 for the method neural only"),
            "recentre": (moves, f"0 to {MOST_MOVES}"),
            "reassign": (again, f"0 to {MOST_REASSIGNMENTS}, and 0 for peers"),
            "new_locations": (known, _one_of(NEW_LOCATIONS)),
        }
        problems = [
            Problem(
                "E402" if name == "time_limit" else "E404",
                name,
                str(getattr(self, name)),
                rule,
            )
            for name, (good, rule) in checks.items()
            if not good
        ]
        if problems:
            raise InputError(problems)


def key_of(method: str) -> str:
    """The method's key in METHODS: its name, or "cmd:" of an outside program."""
    return "cmd:" if method.startswith("cmd:") else method


def _one_of(names: Iterable[str]) -> str:
    return f"one of {', '.join(names)}"


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
