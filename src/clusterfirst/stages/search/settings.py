"""Every constant of the search, in one place."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class PolishSettings:
    """When to stop, and how to search; the measurements behind it are in log/.

    `iterations` per thread (rounded up to `chunk`) end the search, repeatably. An
    iteration is a hundred small steps and, on average, `ruins` large ones.
    """

    seed: int = 0
    iterations: int | None = None
    threads: int = 1
    on_round: Callable[[float], None] | None = None  # is told the share done

    # small steps
    neighbours: int = 20  # nearest customers that a step looks at
    partners: int = 20  # of them may be the partner of a move
    strings: float = 0.34  # shares of the moves; the rest opens routes
    swaps: float = 0.22
    crossings: float = 0.33
    exchanges: float = 0.1

    # large steps
    ruins: float = 1.0  # per iteration
    removed: float = 10.0  # customers removed on average
    longest: float = 10.0  # string
    split: float = 0.5  # probability of keeping customers in the middle of a string
    keep_more: float = 0.01  # probability of keeping one customer more there
    blink: float = 0.01  # probability of passing over a position

    # temperatures, in mean distances to the ten nearest customers
    hot: float = 0.5
    cold: float = 0.03

    # several falls of the temperature, where there is much time per customer
    several_falls: float = 250  # iterations per customer from which they pay
    fall: float = 100  # iterations per customer of each
    most_falls: int = 10
    hot_again: float = 0.25
    packed_up_to: int = 150  # customers: the second fall begins with the fewest routes
    pool_share: float = 0.05  # of the time, to recombine the routes they ended with

    # rounds
    chunk: int = 100  # iterations between two looks at the clock
    most_rounds: int = 200  # times the map is cut
    round_seconds: float = 0.03  # of a round at least, plus so much per customer
    round_seconds_each: float = 1e-4
    tidy_seconds_each: float = 5e-6  # kept back for reading and judging the answer
    smallest_part: int = 150  # customers; smaller parts are not cut off
    copies: int = 4  # of a part are of use
    spare_routes: int = 4  # empty routes of each part
