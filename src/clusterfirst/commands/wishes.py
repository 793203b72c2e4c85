"""What `solve` is asked beside short routes: plans to keep, routes to be even."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from clusterfirst.problem.errors import InputError, Problem

if TYPE_CHECKING:
    from clusterfirst.commands.reading import Reader
    from clusterfirst.problem.instance import Instance
    from clusterfirst.problem.solution import Solution
    from clusterfirst.solving.balancing import Balance
    from clusterfirst.solving.keeping import Kept

Keep = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE", help="Yesterday's plan; customers stay with their vehicle."
    ),
]
MovePrice = Annotated[
    float | None,
    typer.Option(help="With --keep: the distance that a move must save."),
]
KeepShare = Annotated[
    float | None,
    typer.Option(
        help="With --keep: the share of the customers that stay, 0.9 for example."
    ),
]
Frozen = Annotated[
    str | None,
    typer.Option(
        metavar="NAMES|STOPS",
        help="With --keep: vehicles whose routes stay as they are (Anna|Ben), or how "
        "many stops at the beginning of every route do (3).",
    ),
]
BalanceBy = Annotated[
    str | None,
    typer.Option(
        "--balance",
        help="Make routes even in stops, load, distance or duration.",
    ),
]
Within = Annotated[
    str | None,
    typer.Option(help="With --balance: how much longer routes may get (default 3%)."),
]
Familiar = Annotated[
    float | None,
    typer.Option(
        help="With --city: the price of a stop outside its driver's usual area "
        "(`territories`), as a multiple of the mean leg."
    ),
]


@dataclass(frozen=True)
class Asked:
    """The options, checked against each other; the plans are read later."""

    warm_start: Path | None
    keep: Path | None
    move_price: float | None
    share: float | None
    frozen: str | None
    measure: str | None
    within: float

    @classmethod
    def of(
        cls,
        warm_start: Path | None,
        keep: Path | None,
        keeping: tuple[float | None, float | None, str | None],
        balancing: tuple[str | None, str | None],
    ) -> Asked:
        """Check the options; `keeping` and `balancing` are their own ones."""
        price, share, frozen = keeping
        measure, within = balancing
        for name, value in (
            ("--move-price", price),
            ("--keep-share", share),
            ("--frozen", frozen),
        ):
            if value is not None and keep is None:
                _refuse(name, str(value), "it goes with --keep FILE")
        if keep is not None and warm_start is not None:
            rule = "the plan that is kept is the start; leave --warm-start out"
            _refuse("--keep", str(keep), rule)
        if price is not None and not 0 <= price < float("inf"):
            _refuse("--move-price", str(price), "a length of at least 0 is needed")
        if share is not None and not 0 <= share <= 1:
            _refuse("--keep-share", str(share), "a share from 0 to 1 is needed")
        if share is not None and price is not None:
            _refuse("--keep-share", str(share), "a price or a share; leave one out")
        if within is not None and measure is None:
            _refuse("--within", within, "it goes with --balance")
        if measure is not None and keep is not None:
            rule = "a plan is kept or made even; leave one of the two out"
            _refuse("--balance", measure, rule)
        asked = cls(
            warm_start, keep, price, share, frozen, measure, _share(within or "3%")
        )
        asked.balance()
        return asked

    @property
    def more(self) -> bool:
        """Whether anything is asked that the plain search does not know."""
        return self.keep is not None or self.measure is not None

    def refuse_several(self) -> None:
        """Plans of another day go with one instance."""
        other = self.warm_start or self.keep
        if other is not None:
            where = "--warm-start" if self.warm_start else "--keep"
            rule = "routes to start from or to keep go with one instance"
            _refuse(where, str(other), rule)

    def balance(self) -> Balance | None:
        """What is to be even."""
        if self.measure is None:
            return None
        from clusterfirst.solving.balancing import Balance

        return Balance(self.measure, self.within)

    def plans(
        self, reader: Reader, instance: Instance
    ) -> tuple[Solution | None, Kept | None]:
        """Read the plans to start from and to keep."""
        start = kept = None
        if self.warm_start is not None:
            start, _ = reader.solution(self.warm_start, instance, strangers=True)
        if self.keep is not None:
            from clusterfirst.solving.keeping import Kept

            plan, _ = reader.solution(self.keep, instance, strangers=True)
            frozen = self.frozen or ""
            first = int(frozen) if frozen.isdecimal() else 0
            names = "" if frozen.isdecimal() else frozen
            kept = Kept(plan, self.move_price, self.share, names, first)
        return start, kept


def _share(text: str) -> float:
    """A share as people write it: 3%, 3 % or 0.03."""
    word = text.strip()
    try:
        if word.endswith("%"):
            return float(word[:-1]) / 100
        return float(word)
    except ValueError:
        _refuse("--within", text, "a share is needed, such as 3% or 0.03")
        raise AssertionError from None  # not reached


def _refuse(where: str, got: str, rule: str) -> None:
    raise InputError(Problem("E404", where, got, rule))
