"""The paper's numbers as we copied them, against the paper and against themselves."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from clusterfirst.evidence.paper import printed
from clusterfirst.evidence.paper.printed import SIZES
from strategies import SHARED

TEX = Path(SHARED).parent / "paper" / "neural_cfrs.tex"


@pytest.mark.skipif(not TEX.exists(), reason="the paper is not on this machine")
@pytest.mark.parametrize("label", ["one-layer", "k_comparison", "ablations"])
def test_printed_numbers_are_those_of_the_paper(label: str) -> None:
    """Every number of the three grids stands in the paper, in the same order."""
    source = TEX.read_text()
    start = source.index(f"label{{tab:{label}}}")
    body = source[start : source.index("end{tabular}", start)]
    lines = [
        re.sub(r".*(Exact|Sparsified|Assign\.)", "", x, flags=re.DOTALL)
        for x in body.split(r"\\")
        if re.search("Exact|Sparsified|Assign", x)
    ]
    found = [[float(x) for x in re.findall(r"\d+\.\d+", line)] for line in lines]
    ours = {
        "one-layer": printed.one_layer,
        "k_comparison": printed.fleet,
        "ablations": printed.ablation,
    }[label]()
    assert len(found) == len(ours)
    digits = 2 if label == "ablations" else 3
    for numbers, line in zip(found, ours, strict=True):
        gaps = [line.printed[size].gap for size in SIZES]
        times = [line.printed[size].seconds for size in SIZES]
        assert numbers[1::2] == times
        assert numbers[::2] == pytest.approx(gaps, abs=0.51 * 10**-digits)


@pytest.mark.skipif(not TEX.exists(), reason="the paper is not on this machine")
def test_published_rows_are_those_of_the_paper() -> None:
    """The four-size comparison and main results (a) and (b), number by number."""
    source = TEX.read_text()
    body = source[source.index("label{tab:sota-comparison}") :]
    words = set(re.findall(r"-?\d+\.\d+(?=\\%)", body))
    for _, figures in printed.comparison().values():
        known = [figure.gap for figure in figures.values() if figure.gap is not None]
        for gap in known:
            assert {f"{gap:.3f}", f"{gap:.2f}"} & words, gap
    for cells in printed.main_a().values():
        for _, shown in cells.values():
            said = rf"{shown.gap:.2f}\}}?\\%\}}? & ([\d.]+[smh]) "
            times = [printed.duration(word) for word in re.findall(said, source)]
            assert shown.seconds in times, shown


def test_two_fleets_are_never_printed_as_worse() -> None:
    """The best of two is at most the first of the two: a check of our copy."""
    lines = {(x.setup, x.input, x.bce, x.decoding, x.fleet): x for x in printed.fleet()}
    for key, line in lines.items():
        for size in SIZES if key[-1] == "best" else ():
            one, two = lines[(*key[:-1], "kmin")].printed[size], line.printed[size]
            assert one.gap is not None
            assert two.gap is not None
            assert two.gap <= one.gap


@pytest.mark.parametrize(
    ("word", "seconds"), [("4.7s", 4.7), ("1.5m", 90.0), ("12h", 43200.0), ("-", None)]
)
def test_times_are_read_as_the_paper_writes_them(
    word: str, seconds: float | None
) -> None:
    """Seconds, minutes, hours, and nothing."""
    assert printed.duration(word) == seconds


def test_seconds_per_instance_follow_the_papers_note() -> None:
    """128 instances on 16 cores are 8 batches, as its note on time says."""
    line = printed.ablation()[0]
    assert line.printed[1000].seconds_each(1000) == pytest.approx(359.49 / 8)
