"""Answers need no torch; what learns says what to install."""

from __future__ import annotations

import subprocess
import sys

import pytest

HIDDEN = "import sys; sys.modules['torch'] = None; "
ANSWER = """
from clusterfirst import SolveOptions, solve, solve_many
from clusterfirst.files import bundled_city
from clusterfirst.problem.sampling import sample_day
from clusterfirst.solving.explaining.explain import explain
days = [sample_day(bundled_city(), 12, seed=1, index=i) for i in range(2)]
for model, assign in (("general", "fast"), ("city-psi-one-layer", "sparse")):
    options = SolveOptions("neural", model=model, assign=assign, iterations=2)
    result = solve(days[0], options)
    assert explain(days[0], result.solution, model).network is not None
plain = SolveOptions("neural", iterations=2, polish=False)
assert all(answer.verdict.feasible for answer in solve_many(days, plain))
"""
COMMAND = """
from clusterfirst.__main__ import run
sys.argv[1:] = {words!r}
sys.exit(run())
"""


def run(code: str) -> subprocess.CompletedProcess[str]:
    """Run code in a process in which torch cannot be imported."""
    command = [sys.executable, "-c", HIDDEN + code]
    return subprocess.run(command, capture_output=True, text=True, timeout=300)


def test_answers_need_no_torch() -> None:
    """solve, solve_many and explain with shipped models, a transport plan included."""
    done = run(ANSWER)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    "words",
    [
        ["learn", "bundled", "--hours", "1", "--out", "nowhere"],
        ["pretrain", "bundled", "--out", "nowhere"],
        ["train", "--out", "nowhere", "--labels", "nowhere"],
    ],
)
def test_learning_says_what_to_install(words: list[str]) -> None:
    """One sentence with a code, and the exit code of an input that cannot be used."""
    done = run(COMMAND.format(words=words))
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert "E422" in line
    assert "pip install 'clusterfirst[train]'" in line
