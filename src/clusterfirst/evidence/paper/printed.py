"""The numbers the paper prints, and where its published rows come from.

Gaps in per cent, times in seconds for the whole set: 10,000 instances at N = 100 and
128 at the other sizes, 16 at a time on 16 cores (the paper's note on measuring
inference time). Nothing in here was measured by us.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

SIZES = (100, 200, 500, 1000)
PAPER_COUNTS = {100: 10_000, 200: 128, 500: 128, 1000: 128}
PAPER_CORES = 16
NUMBERS = Path(__file__).parent / "numbers"


@dataclass(frozen=True)
class Printed:
    """A gap in per cent and the seconds of the whole set, as printed."""

    gap: float | None
    seconds: float | None

    def seconds_each(self, size: int) -> float | None:
        """The paper's own arithmetic: the set's time by its batches of 16."""
        if self.seconds is None:
            return None
        return self.seconds / (PAPER_COUNTS[size] / PAPER_CORES)


@dataclass(frozen=True)
class GridLine:
    """A row of an ablation table: what was switched, and a figure per size."""

    setup: str  # constant or standard capacity
    input: str  # psi or xy
    bce: bool
    decoding: str  # exact, sparse or hard
    fleet: str  # kmin, or best of K_min and K_min + 1
    printed: dict[int, Printed]


def _lines(name: str) -> list[str]:
    """The rows of a file of printed numbers, which says what its columns are."""
    text = (NUMBERS / f"{name}.txt").read_text(encoding="utf-8")
    return [line for line in text.splitlines() if not line.startswith("#")]


def one_layer() -> list[GridLine]:
    """The table of single-layer models."""
    return list(_grid(_lines("one-layer")))


def fleet() -> list[GridLine]:
    """The table of K_min against the best of K_min and K_min + 1."""
    return list(_grid(_lines("fleet")))


def ablation() -> list[GridLine]:
    """The ablation table: the K_min rows of `fleet`."""
    return [line for line in fleet() if line.fleet == "kmin"]


def _grid(lines: Iterable[str]) -> Iterator[GridLine]:
    for line in lines:
        words = line.split()
        labels, numbers = words[:-8], [float(word) for word in words[-8:]]
        setup, kind, bce, decoding = labels[:4]
        which = labels[4] if len(labels) > 4 else "kmin"
        pairs = zip(numbers[::2], numbers[1::2], strict=True)
        printed = dict(zip(SIZES, (Printed(*pair) for pair in pairs), strict=True))
        yield GridLine(setup, kind, bce == "bce", decoding, which, printed)


def main_a() -> dict[str, dict[int, tuple[str, Printed]]]:
    """Model -> size -> the decoding the paper found best, and its figures."""
    found = {}
    for line in _lines("main-a"):
        model, *words = line.split()
        cells = zip(words[::3], words[1::3], words[2::3], strict=True)
        figures = [(how, Printed(float(gap), duration(t))) for how, gap, t in cells]
        found[model] = dict(zip(SIZES, figures, strict=True))
    return found


ONLY_FOUR_SIZES = ("HGS", "OR-Tools")  # rows that main results (b) leaves out


def comparison() -> dict[str, tuple[str, dict[int, Printed]]]:
    """Method -> (source, figures by size) of the four-size comparison."""
    found = {}
    for line in _lines("comparison"):
        name, source, numbers = line.split(" | ")
        words = numbers.split()
        pairs = zip(words[::2], words[1::2], strict=True)
        figures = [
            Printed(None if gap == "-" else float(gap), duration(time))
            for gap, time in pairs
        ]
        found[name] = (source, dict(zip(SIZES, figures, strict=True)))
    return found


def duration(word: str) -> float | None:
    """Seconds of "4.7s", "1.3m" or "12h"; None of "-"."""
    if word == "-":
        return None
    return float(word[:-1]) * {"s": 1, "m": 60, "h": 3600}[word[-1]]


# --- sweep on days with a central depot ----------------------------------------------

SWEEP_CITY = {
    100: Printed(10.873, 15),
    200: Printed(14.119, 27),
    500: Printed(20.592, 56),
    1000: Printed(24.936, 54),
}

# --- what figures say in words --------------------------------------------------------

# Figure "mip_precision_recall": threshold -> what its caption and the text say.
PLAN_SAYS = {
    0.01: "recall > 95, precision > 80",
    0.99: "recall > 70, precision about 97",
}
MIP_SAYS = (
    "printed, figure optimality-gap in words: early termination leaves the routes no "
    "better, below a MIP gap of 1 % they improve steeply; with BCE about 45 s to reach "
    "16 %, then 10 s more to the end (16 cores, Gurobi)"
)
BEAT_LKH3 = "174 of 10,000 beat LKH-3, all with its K; the best by 1.88 and 1.65 %"
WORST_200 = "most below 7 %; one of the ten worst shown, 6.38 %, with another K"
