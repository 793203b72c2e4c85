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
    small: int = 150  # customers up to which falls begin with other routes:
    first_falls: int = 2  # then a population breeds, of which the second fall
    first_rounds: int = 5  # begins with the fewest routes; so many rounds of each
    bred: float = 12.5  # iterations per customer of a child: a fall of one round
    hot_bred: float = 0.2
    parents: int = 25
    most_bred: int = 1000
    pool_share: float = 0.05  # of the time, to recombine the routes they ended with
    pool_whole: int = 500  # customers up to which one program recombines all routes
    pool_region: int = 300  # customers of a region above that
    pool_nodes: int = 2000  # of branch and bound, so that it ends without a deadline

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
    a set-partitioning program recombines what all of them ended with. Where routes
    are bred, two such falls are followed by many short ones, one for each child.
    """

    begin: float
    seconds: float
    iterations: float
    rounds: int  # parts of the budget between which routes are read and cut anew
    falls: int
    bred: int  # rounds after these falls that are a child's fall each
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
        each = min(seconds * settings.speed, count) / n
        falls, bred = 1, 0
        if each >= settings.several_falls:
            falls = round(min(each / settings.fall, settings.most_falls))
            seconds *= 1.0 - settings.pool_share
        per_fall = max(1, int(min(rounds, settings.most_rounds) / falls))
        first = settings.first_falls * settings.first_rounds
        if breeds and n <= settings.small and each > first * settings.bred:
            falls, per_fall = settings.first_falls, settings.first_rounds
            bred = int(min(each / settings.bred, settings.most_bred)) - first
        whole, begin = falls * per_fall + bred, time.perf_counter()
        return cls(begin, seconds, count, whole, falls, bred, settings)

    def used(self, done: int) -> float:
        """Share of the budget that is used after so many iterations."""
        passed = time.perf_counter() - self.begin
        return max(passed / self.seconds, done / self.iterations)

    def temperature(self, used: float, *, afresh: bool = False) -> float:
        """When this share (below 1) of the budget is used; `afresh` in a hot fall."""
        at = used * self.rounds
        if at >= self.rounds - self.bred:
            part, hot = at % 1.0, self.settings.hot_bred
        else:
            fall, part = divmod(at / self.per_fall, 1.0)
            hot = self.settings.hot if fall < 1.0 or afresh else self.settings.hot_again
        return hot * math.exp(part * math.log(self.settings.cold / hot))

    @property
    def per_fall(self) -> int:
        """Rounds of a fall that is not a child's."""
        return (self.rounds - self.bred) // self.falls

    def ends_fall(self, step: int) -> bool:
        """Whether the temperature is at its lowest after this round."""
        return self.breeds_after(step) or (step + 1) % self.per_fall == 0

    def breeds_after(self, step: int) -> bool:
        """Whether the round after this one is a child's."""
        return self.bred > 0 and step + 1 >= self.rounds - self.bred
