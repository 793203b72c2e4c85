"""Every constant of the search; how much of its budget is used, how hot it is then."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass

from clusterfirst.problem.clock import Deadline
from clusterfirst.problem.instance import Instance


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
    moves: int = 100  # of one iteration
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
    cooler: float = 0.3  # after a good start, which 0.5 would melt
    long_routes: float = 40  # customers; above, the network is too often wrong for it

    # several falls of the temperature, where there is much time per customer
    several_falls: float = 250  # iterations per customer from which they pay
    fall: float = 100  # iterations per customer of each
    most_falls: int = 30
    hot_again: float = 0.25
    pool_share: float = 0.05  # of the time, to recombine the routes they ended with
    pool_ends: int = 25  # of them, the shortest
    pool_whole: int = 500  # customers up to which one program recombines all routes
    pool_region: int = 300  # customers of a region above that
    pool_nodes: int = 2000  # of branch and bound, so that it ends without a deadline

    # genetic search, after some falls of the temperature
    breeds: float = 60  # iterations per customer from which it pays at N = 100,
    breeds_size: float = 2.6  # and this power of the size for other maps
    annealed: float = 0.3  # of the time before it, in falls:
    falls_before: int = 10  # at most; each hands over where it ended
    founders: int = 10  # random members besides
    child: float = 0.5  # iterations per customer that a child counts as
    children: int = 800  # over the customers: between two looks at the clock

    # rounds
    speed: int = 100_000  # iterations per second of one thread, about
    chunk: int = 100  # iterations between two looks at the clock
    most_rounds: int = 200  # times the map is cut
    round_seconds: float = 0.03  # of a round at least, plus so much per customer
    round_seconds_each: float = 1e-4
    tidy_seconds_each: float = 5e-6  # kept back for reading and judging the answer
    smallest_part: int = 150  # customers; smaller parts are not cut off
    copies: int = 4  # of a part are of use
    spare_routes: int = 4  # empty routes of each part


@dataclass(frozen=True)
class Schedule:
    """A budget of seconds or iterations, and temperatures that fall with its use.

    With much time per customer the temperature falls several times, after the first
    time from a lower one: each fall begins with the routes that the last one left, and
    a set-partitioning program recombines what all of them ended with; or, on small
    maps, a genetic search goes on from what they ended with.
    """

    begin: float
    seconds: float
    iterations: float
    rounds: int  # parts of the budget between which routes are read and cut anew
    falls: int
    bred: int  # the last rounds: of the genetic search
    settings: PolishSettings

    @classmethod
    def of(
        cls,
        instance: Instance,
        settings: PolishSettings,
        deadline: Deadline,
        *,
        breeds: bool = False,
    ) -> Schedule:
        """Plan the search of an instance; `breeds` if it can, where that pays."""
        n = max(1, instance.num_customers)
        seconds = max(deadline.left() - settings.tidy_seconds_each * n, 1e-9)
        count = math.inf if settings.iterations is None else settings.iterations
        round_seconds = settings.round_seconds + settings.round_seconds_each * n
        rounds = min(seconds / round_seconds, count / settings.chunk)
        whole = max(1, int(min(rounds, settings.most_rounds)))
        each = min(seconds * settings.speed, count) / n
        falls, bred = 1, 0
        pays = settings.breeds * (n / 100) ** settings.breeds_size
        if breeds and each >= pays:
            falls = max(1, int(settings.annealed * each / settings.fall))
            falls = min(falls, settings.falls_before)
            share = min(settings.annealed, falls * settings.fall / each)
            first = max(falls, round(share * whole / falls) * falls)
            whole = max(whole, first + 1)
            bred = whole - first
        elif each >= settings.several_falls:
            falls = round(min(each / settings.fall, settings.most_falls))
            seconds *= 1.0 - settings.pool_share
            whole = max(1, whole // falls) * falls
        begin = time.perf_counter()
        return cls(begin, seconds, count, whole, falls, bred, settings)

    def used(self, done: int) -> float:
        """Share of the budget that is used after so many iterations."""
        passed = time.perf_counter() - self.begin
        return max(passed / self.seconds, done / self.iterations)

    def temperature(self, used: float) -> float:
        """When this share (below 1) of the budget is used."""
        fall, part = divmod(used * self.rounds / self.per_fall, 1.0)
        hot = self.settings.hot if fall < 1.0 else self.settings.hot_again
        return hot * math.exp(part * math.log(self.settings.cold / hot))

    @property
    def per_fall(self) -> int:
        """Rounds of a fall."""
        return (self.rounds - self.bred) // self.falls

    def ends_fall(self, step: int) -> bool:
        """Whether the temperature is at its lowest after this round."""
        return (step + 1) % self.per_fall == 0

    def breeds(self, step: int) -> bool:
        """Whether this round is one of the genetic search."""
        return step >= self.rounds - self.bred
