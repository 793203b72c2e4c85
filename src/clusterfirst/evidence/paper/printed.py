"""The numbers the paper prints, and where its published rows come from.

Gaps in per cent, times in seconds for the whole set: 10,000 instances at N = 100 and
128 at the other sizes, 16 at a time on 16 cores (the paper's note on measuring
inference time). Nothing in here was measured by us.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

SIZES = (100, 200, 500, 1000)
PAPER_COUNTS = {100: 10_000, 200: 128, 500: 128, 1000: 128}
PAPER_CORES = 16


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


# Table "one-layer": setup, input, L_BCE, decoding, then gap and seconds by size.
_ONE_LAYER = """\
constant psi bce exact  4.820 96.62  5.545 6.53  6.792 28.22  6.492 246.15
constant psi bce sparse  4.844 92.29  5.395 6.34  6.745 42.99  9.769 410.14
constant psi bce hard  5.681 90.10  5.733 6.16  5.946 76.00  5.315 262.98
constant psi plain exact  5.215 78.88  6.040 5.07  6.595 15.27  6.517 62.88
constant psi plain sparse  5.338 76.24  5.969 5.18  6.995 45.49  15.163 535.94
constant psi plain hard  6.015 73.47  6.115 4.73  5.579 40.33  5.083 318.25
constant xy bce exact  5.372 74.93  6.433 4.69  9.396 18.63  9.610 128.83
constant xy bce sparse  5.399 75.27  6.186 4.67  9.243 30.26  9.653 204.91
constant xy bce hard  6.177 74.01  6.337 4.90  8.154 122.86  7.991 133.46
constant xy plain exact  5.683 77.38  6.437 5.72  9.008 26.56  8.916 127.88
constant xy plain sparse  5.618 72.76  7.431 5.10  9.154 29.57  17.220 392.29
constant xy plain hard  6.316 69.91  6.565 3.95  7.417 60.51  7.314 157.19
standard psi bce exact  4.845 96.13  7.413 5.39  12.113 8.16  24.953 25.67
standard psi bce sparse  4.838 93.38  7.038 5.49  12.581 9.00  29.701 27.37
standard psi bce hard  5.682 91.02  6.589 5.18  9.950 19.99  20.525 25.20
standard psi plain exact  5.205 82.00  7.315 4.35  12.041 7.31  20.845 20.71
standard psi plain sparse  5.270 75.57  7.689 4.03  12.511 7.22  26.589 21.44
standard psi plain hard  6.007 73.93  6.477 3.77  9.352 9.81  16.728 18.54
standard xy bce exact  5.397 75.47  8.239 3.72  16.163 5.76  31.586 18.75
standard xy bce sparse  5.366 72.27  7.896 3.64  16.395 6.92  35.809 19.64
standard xy bce hard  6.207 78.16  7.460 4.51  12.671 9.18  23.193 20.69
standard xy plain exact  5.684 77.32  8.074 4.10  16.705 7.28  31.542 20.00
standard xy plain sparse  5.740 72.80  7.969 3.73  17.038 6.62  36.582 20.27
standard xy plain hard  6.347 70.38  7.279 3.53  12.730 11.26  23.844 17.96
"""

# Table "k_comparison". Its K_min rows are those of the ablation table with one more
# decimal, so that table needs no copy of its own.
_FLEET = """\
constant psi bce exact kmin  3.030 77.60  3.877 5.41  4.540 24.83  7.630 359.49
constant psi bce exact best  3.007 150.07  3.786 9.28  4.511 41.79  4.311 604.53
constant psi bce sparse kmin  3.239 73.44  3.787 5.12  4.458 35.21  9.555 410.24
constant psi bce sparse best  3.098 145.65  3.709 9.10  4.429 53.02  4.382 722.47
constant psi bce hard kmin  3.759 75.30  4.866 3.92  4.788 49.27  3.768 609.85
constant psi bce hard best  3.500 142.57  4.570 7.67  4.647 70.81  3.699 1136.42
constant psi plain exact kmin  3.161 81.97  3.896 5.65  4.382 43.91  4.774 172.39
constant psi plain exact best  3.132 161.72  3.703 12.24  4.330 62.13  4.692 284.20
constant psi plain sparse kmin  3.619 73.04  4.964 4.45  4.429 37.73  13.082 501.21
constant psi plain sparse best  3.286 143.92  3.675 8.94  4.389 56.89  5.041 926.52
constant psi plain hard kmin  4.531 68.87  4.953 4.02  4.502 50.05  4.054 745.55
constant psi plain hard best  4.168 135.99  4.744 7.78  4.413 72.51  3.914 1208.47
constant xy bce exact kmin  3.336 80.77  4.209 5.47  5.203 19.62  8.369 380.22
constant xy bce exact best  3.313 159.20  4.085 9.93  5.167 34.41  4.907 548.95
constant xy bce sparse kmin  3.424 76.94  4.184 5.04  5.217 29.99  6.769 397.26
constant xy bce sparse best  3.326 152.31  4.036 9.38  5.176 48.95  5.043 689.43
constant xy bce hard kmin  4.048 74.37  4.740 4.58  4.871 107.01  4.279 381.34
constant xy bce hard best  3.795 145.77  4.567 8.66  4.762 120.77  4.149 552.14
constant xy plain exact kmin  3.278 102.03  3.857 6.75  4.216 41.38  4.073 266.21
constant xy plain exact best  3.251 198.98  3.715 13.23  4.176 69.27  3.957 512.71
constant xy plain sparse kmin  3.512 96.45  3.860 7.05  5.580 28.95  10.501 481.56
constant xy plain sparse best  3.327 190.03  3.712 13.59  4.149 54.71  7.231 955.83
constant xy plain hard kmin  4.640 89.76  5.223 5.68  4.270 108.49  3.262 1240.40
constant xy plain hard best  4.281 178.09  4.864 11.34  4.145 135.81  3.180 2074.16
standard psi bce exact kmin  3.034 87.69  4.830 4.41  9.741 6.92  26.375 41.47
standard psi bce exact best  3.011 171.66  4.830 8.81  9.712 13.85  26.375 82.94
standard psi bce sparse kmin  3.299 76.35  4.749 3.73  9.743 9.63  28.242 40.00
standard psi bce sparse best  3.057 150.24  4.749 7.68  9.730 18.85  28.242 79.99
standard psi bce hard kmin  3.758 74.22  5.062 3.58  8.268 16.75  22.304 37.90
standard psi bce hard best  3.504 143.80  5.044 7.11  8.247 26.16  22.304 74.75
standard psi plain exact kmin  3.174 83.48  4.796 4.11  9.046 7.50  27.148 20.81
standard psi plain exact best  3.144 161.72  4.796 8.09  9.042 14.84  27.148 41.65
standard psi plain sparse kmin  3.710 76.43  4.767 3.95  9.022 7.22  29.759 21.13
standard psi plain sparse best  3.336 152.07  4.766 7.99  9.017 14.84  29.759 42.10
standard psi plain hard kmin  4.555 72.95  5.256 3.77  8.013 18.96  21.427 19.78
standard psi plain hard best  4.191 143.51  5.240 7.64  8.013 38.30  21.427 39.14
standard xy bce exact kmin  3.316 76.27  5.142 3.58  10.487 6.03  25.018 18.71
standard xy bce exact best  3.296 148.82  5.142 7.25  10.487 12.43  25.018 37.68
standard xy bce sparse kmin  3.408 74.26  5.092 3.68  10.673 6.58  26.305 20.21
standard xy bce sparse best  3.319 144.79  5.092 7.34  10.668 12.95  26.305 40.41
standard xy bce hard kmin  4.054 70.81  5.130 3.34  9.024 6.49  21.309 17.79
standard xy bce hard best  3.806 138.46  5.122 6.63  9.024 12.59  21.309 35.58
standard xy plain exact kmin  3.283 81.93  4.745 3.97  8.438 7.06  20.904 20.28
standard xy plain exact best  3.252 159.29  4.729 7.83  8.432 13.48  20.904 40.69
standard xy plain sparse kmin  3.691 77.36  4.694 3.89  8.407 7.85  23.744 22.65
standard xy plain sparse best  3.401 151.54  4.669 7.79  8.401 16.11  23.744 44.41
standard xy plain hard kmin  4.633 71.96  4.877 3.59  7.465 8.56  18.952 19.31
standard xy plain hard best  4.291 141.91  4.808 7.24  7.446 16.56  18.952 39.19
"""


def one_layer() -> list[GridLine]:
    """The table of single-layer models."""
    return list(_grid(_ONE_LAYER))


def fleet() -> list[GridLine]:
    """The table of K_min against the best of K_min and K_min + 1."""
    return list(_grid(_FLEET))


def ablation() -> list[GridLine]:
    """The ablation table: the K_min rows of `fleet`."""
    return [line for line in fleet() if line.fleet == "kmin"]


def _grid(text: str) -> Iterator[GridLine]:
    for line in text.splitlines():
        words = line.split()
        labels, numbers = words[:-8], [float(word) for word in words[-8:]]
        setup, kind, bce, decoding = labels[:4]
        which = labels[4] if len(labels) > 4 else "kmin"
        pairs = zip(numbers[::2], numbers[1::2], strict=True)
        printed = dict(zip(SIZES, (Printed(*pair) for pair in pairs), strict=True))
        yield GridLine(setup, kind, bce == "bce", decoding, which, printed)


# --- main results (a) ---------------------------------------------------------------

# Model, then the decoding the paper found best and its gap, size by size. The last
# row is labelled "1-layer (x, y w/o BCE)", but its numbers are those of Psi without
# BCE in the one-layer table; there (x, y) without BCE has 5.68, 6.44, 7.42 and 7.31.
MAIN_A = {
    "city-psi": (("exact", 3.03), ("sparse", 3.79), ("sparse", 4.46), ("hard", 3.77)),
    "city-xy-plain": (
        ("exact", 3.28),
        ("exact", 3.86),
        ("exact", 4.22),
        ("hard", 3.26),
    ),
    "city-psi-one-layer": (
        ("exact", 4.82),
        ("sparse", 5.40),
        ("hard", 5.95),
        ("hard", 5.32),
    ),
    "city-xy-plain-one-layer": (
        ("exact", 5.22),
        ("sparse", 5.97),
        ("hard", 5.58),
        ("hard", 5.08),
    ),
}
MAIN_A_TIMES = {  # in the paper's units: m minutes, s seconds
    "city-psi": ("1.3m", "5.1s", "35s", "10m"),
    "city-xy-plain": ("1.7m", "6.8s", "41s", "21m"),
    "city-psi-one-layer": ("1.6m", "6.3s", "1.3m", "4.4m"),
    "city-xy-plain-one-layer": ("1.3m", "5.2s", "40s", "5.3m"),
}

# --- the four-size comparison on LEHD's sets, and main results (b) -------------------

_LEHD = "Luo et al. 2024 (LEHD), cited by the paper"
_AUTHORS = "run by the paper's authors with the published code and weights"
_OWN = "the paper's own implementation"
# Method, source, then gap and time by size; "-" is printed where there is none.
_COMPARISON = f"""\
LKH-3 | {_LEHD} | 0.000 12h 0.000 2.1h 0.000 5.5h 0.000 7.1h
HGS | {_LEHD} | -0.533 4.5h -1.126 1.4h -1.794 4h -2.162 5.3h
OR-Tools | {_LEHD} | 6.193 2h 6.894 1h 9.112 2.2h 11.662 3h
POMO greedy | {_AUTHORS} | 3.162 4.7s 9.335 0.2s 34.685 0.5s 307.928 1.4s
BQ greedy | {_LEHD} | 2.993 0.7m 3.527 4s 5.121 0.4m 9.812 2.4m
LEHD greedy | {_LEHD} | 3.648 0.5m 3.312 3s 3.178 0.3m 4.912 1.6m
Sweep-LKH3 | {_OWN} | 16.097 2.5m 13.095 2s 14.150 3.8s 5.230 8.8s
Petal | code of Rasku et al. 2019 | 8.647 31m 8.214 2.4m 11.113 26m - -
Fisher-Jaikumar-LKH3 | {_OWN} | 6.750 18m 6.454 25s 6.740 2.8m 3.749 1.3m
Neural Cap. Cluster (128) | {_AUTHORS} | 10.088 5.2m 11.545 11m 11.267 31m 20.025 1.1h
TAM-LKH3 | Hou et al. 2023, cited by the paper | 3.209 0.86s - - - - -0.215 6.2s
GLOP-LKH3 | {_AUTHORS}, trained anew | 22.70 16m 18.78 14s 17.57 19s 31.10 27s
Neural CFRS exact | the paper | 2.732 1.4m 6.247 4.0s 9.787 6.8s 30.102 21s
Neural CFRS sparse | the paper | 3.753 1.2m 5.964 3.9s 9.604 7.7s 31.219 21s
Neural CFRS hard | the paper | 3.858 1.2m 5.603 4.3s 7.827 8.4s 27.868 20s
"""
ONLY_FOUR_SIZES = ("HGS", "OR-Tools")  # rows that main results (b) leaves out


def comparison() -> dict[str, tuple[str, dict[int, Printed]]]:
    """Method -> (source, figures by size) of the four-size comparison."""
    found = {}
    for line in _COMPARISON.splitlines():
        name, source, numbers = line.split(" | ")
        words = numbers.split()
        pairs = zip(words[::2], words[1::2], strict=True)
        figures = [Printed(_gap(gap), duration(time)) for gap, time in pairs]
        found[name] = (source, dict(zip(SIZES, figures, strict=True)))
    return found


def _gap(word: str) -> float | None:
    return None if word == "-" else float(word)


def duration(word: str) -> float | None:
    """Seconds of "4.7s", "1.3m" or "12h"; None of "-"."""
    if word == "-":
        return None
    return float(word[:-1]) * {"s": 1, "m": 60, "h": 3600}[word[-1]]


# --- sweep on days with a central depot ----------------------------------------------

SWEEP_CITY = dict(
    zip(
        SIZES,
        (
            Printed(10.873, 15),
            Printed(14.119, 27),
            Printed(20.592, 56),
            Printed(24.936, 54),
        ),
        strict=True,
    )
)

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
