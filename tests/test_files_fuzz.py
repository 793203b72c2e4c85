"""Damaged files: an InputError with fit lines, or a usable instance; nothing else.

A small campaign; campaign/files.py is the large one.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from strategies import corpus, damaged, odd_sets, verdict_on

CORPUS = corpus()


MANY = settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


@MANY
@given(data=st.data())
@pytest.mark.parametrize("kind", CORPUS)
def test_damage_is_refused_or_harmless(
    kind: str, tmp_path: Path, data: st.DataObject
) -> None:
    """Mutated bytes of every format never crash a reader."""
    verdict_on(kind, data.draw(damaged(CORPUS[kind])), tmp_path)


@MANY
@given(data=odd_sets())
def test_odd_sets_are_refused_or_harmless(tmp_path: Path, data: bytes) -> None:
    """Arrays of any type and shape, and damaged ones, never crash the reader."""
    verdict_on(".npz", data, tmp_path)


@pytest.mark.parametrize("kind", CORPUS)
def test_the_corpus_itself_is_read(kind: str, tmp_path: Path) -> None:
    """Undamaged, every file of the corpus reads."""
    assert all(verdict_on(kind, data, tmp_path) == "read" for data in CORPUS[kind])
