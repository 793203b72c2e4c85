"""Peers and outside programs: a judged answer or one sentence, whatever happens."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from clusterfirst.evidence.bench.run import Method
from clusterfirst.learning.experts.expert import ExpertSettings
from clusterfirst.learning.experts.outside import whole_numbers
from clusterfirst.learning.experts.peers import (
    MAX_LISTED,
    answer_of_peer,
    require_peer,
    run_peer,
)
from clusterfirst.learning.experts.peers import (
    PEERS as TABLE,
)
from clusterfirst.problem.clock import Deadline
from clusterfirst.problem.errors import InfeasibleError, InputError, NotFoundInTimeError
from clusterfirst.problem.instance import Instance
from clusterfirst.problem.sampling import sample_world
from clusterfirst.problem.solution import Solution, judge
from clusterfirst.solving.solver import SolveOptions, solve

PACKAGES = {"hgs": "hygese", "pyvrp": "pyvrp", "ortools": "ortools", "vroom": "vroom"}
PEERS = [
    pytest.param(
        name,
        marks=pytest.mark.skipif(
            importlib.util.find_spec(package) is None,
            reason=f"{package} of the extra `bench` is missing",
        ),
    )
    for name, package in PACKAGES.items()
]
BRIEF = ExpertSettings(seconds=0.2, seed=1)
# An outside program in plain Python: every customer gets a route of its own.
ALONE = """
import sys
lines = open(sys.argv[1]).read().splitlines()
size = next(int(l.split(":")[1]) for l in lines if l.startswith("DIMENSION"))
with open(sys.argv[2], "w") as file:
    for c in range(1, size):
        print(f"Route #{c}: {c}", file=file)
    print("Cost 1", file=file)
"""


def _instance(n: int, **changes: object) -> Instance:
    rng = np.random.default_rng(n)
    whole: dict[str, object] = {
        "demands": np.concatenate([[0], rng.integers(1, 10, n)]),
        "capacity": 20,
        "coords": rng.random((n + 1, 2)),
    }
    return Instance(**(whole | changes))  # type: ignore[arg-type]


def _program(folder: Path, text: str, tail: str = "{instance} {solution}") -> str:
    path = folder / "program.py"
    path.write_text(text)
    return f"cmd:{sys.executable} {path} {tail}"


def test_the_table_and_the_names_agree() -> None:
    """Every peer is tested here."""
    assert set(TABLE) == set(PACKAGES)


@pytest.mark.parametrize("peer", PEERS)
def test_a_peer_gives_routes_the_judge_accepts(peer: str) -> None:
    """A small instance is solved, and better than by a vehicle per customer."""
    instance = _instance(20)
    verdict = judge(instance, run_peer(peer, instance, BRIEF))
    alone = judge(instance, Solution([c] for c in range(1, 21)))
    assert verdict.feasible
    assert verdict.cost < alone.cost


@pytest.mark.parametrize("peer", PEERS)
@pytest.mark.parametrize(
    "changes",
    [
        {"coords": np.zeros((9, 2))},
        {"demands": [0, *[0.7] * 8], "capacity": 2.1},
        {"demands": [0] * 9},
        {"coords": np.random.default_rng(0).random((9, 2)) * 1e8},
        {"matrix": _instance(8).distances, "metric": "matrix", "coords": None},
    ],
    ids=["one place", "decimals", "no demand", "huge", "bare matrix"],
)
def test_odd_instances_are_solved_by_every_peer(
    peer: str, changes: dict[str, object]
) -> None:
    """Floats, zeros and bare matrices arrive as what they are."""
    instance = _instance(8, **changes)
    assert judge(instance, run_peer(peer, instance, BRIEF)).feasible


@pytest.mark.parametrize("peer", PEERS)
def test_infeasible_input_never_reaches_a_peer(peer: str) -> None:
    """A demand above the capacity is said in words; peers answer it with nonsense."""
    with pytest.raises(InfeasibleError, match="E201"):
        run_peer(peer, _instance(5, capacity=3), BRIEF)


@pytest.mark.parametrize("peer", PEERS)
def test_a_peer_by_counts_ends_without_a_clock(peer: str) -> None:
    """`--iterations` works for peers too, as far as they can count."""
    options = SolveOptions(method=peer, iterations=200)
    assert solve(_instance(12), options).verdict.feasible


@pytest.mark.parametrize("peer", sorted(PACKAGES))
def test_a_missing_extra_is_one_sentence(
    peer: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """E422 names the extra to install."""
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(InputError, match=r"E422.*pip install 'clusterfirst\["):
        require_peer(peer)


@pytest.mark.parametrize("peer", ["ortools", "vroom"])
def test_too_many_customers_are_refused_before_memory_is_gone(
    peer: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A matrix that does not fit is said, not tried."""
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: True)
    instance = _instance(MAX_LISTED + 1, capacity=1000)
    with pytest.raises(NotFoundInTimeError, match="too large"):
        answer_of_peer(peer, instance, Deadline.after(1.0), seed=0)


def test_the_process_of_a_peer_has_no_highspy() -> None:
    """highspy and ortools cannot share a process, and start-up stays short."""
    program = "import clusterfirst.learning.experts.peers, sys; print(*sys.modules)"
    run = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert not {"highspy", "torch", "numba"} & set(run.stdout.split())


# --- outside programs -------------------------------------------------------------


def test_an_outside_program_solves(tmp_path: Path) -> None:
    """It reads .vrp, writes .sol, and its routes are judged like ours."""
    method = _program(tmp_path, ALONE)
    instance = _instance(6)
    solution = run_peer(method, instance, BRIEF)
    assert solution == Solution([c] for c in range(1, 7))
    result = solve(instance, SolveOptions(method=method, time_limit=20.0))
    assert result.verdict.feasible
    assert not result.notes


def test_the_placeholders_are_filled_in(tmp_path: Path) -> None:
    """Seconds and seed reach the program as plain numbers."""
    note = tmp_path / "note"
    text = ALONE + f"open({str(note)!r}, 'w').write(' '.join(sys.argv[3:]))"
    method = _program(tmp_path, text, "{instance} {solution} -t={seconds} {seed}")
    run_peer(method, _instance(3), ExpertSettings(seconds=0.5, seed=7))
    assert note.read_text() == "-t=0.5 7"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "no solution file"),
        ("raise SystemExit(3)", "exit code 3"),
        ("import sys; open(sys.argv[2], 'w').write('Route 1: x')", "whole numbers"),
        ("import sys; open(sys.argv[2], 'w').write('Route #1: 1')", "no visit"),
    ],
)
def test_a_failing_program_is_one_sentence(
    tmp_path: Path, text: str, reason: str
) -> None:
    """No file, an exit code, nonsense or too few customers: NotFoundInTimeError."""
    with pytest.raises(NotFoundInTimeError, match=reason):
        run_peer(_program(tmp_path, text), _instance(5), BRIEF)


def test_a_hanging_program_dies_with_its_children(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The watchdog ends the whole group, not only the program."""
    note = tmp_path / "pid"
    text = f"""
import subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
open({str(note)!r}, "w").write(str(child.pid))
time.sleep(600)
"""
    monkeypatch.setattr(ExpertSettings, "patience", lambda self, n: 3.0)
    with pytest.raises(NotFoundInTimeError, match="was ended"):
        run_peer(_program(tmp_path, text), _instance(5), BRIEF)
    if not note.exists():
        pytest.skip("the machine is too busy to start the program in 3 s")
    for _ in range(100):
        stat = Path(f"/proc/{note.read_text()}/stat")
        if not stat.exists() or stat.read_text().split()[2] == "Z":
            return
        time.sleep(0.05)
    pytest.fail("the child of the program still runs")


@pytest.mark.parametrize(
    ("method", "code"),
    [
        ("cmd:", "E404"),
        ("cmd:true {instance}", "E404"),
        ("cmd:true '{instance} {solution}", "E404"),
        ("cmd:no-such-program-here {instance} {solution}", "E422"),
    ],
)
def test_a_wrong_command_is_refused_before_it_runs(method: str, code: str) -> None:
    """Both files must be named, and the program must exist."""
    with pytest.raises(InputError, match=code):
        run_peer(method, _instance(5), BRIEF)


def test_an_outside_program_needs_a_time_limit(tmp_path: Path) -> None:
    """There is nothing else to stop it by."""
    options = SolveOptions(method=_program(tmp_path, ALONE), iterations=5)
    with pytest.raises(InputError, match="E402"):
        solve(_instance(5), options)


def test_no_shell_is_involved(tmp_path: Path) -> None:
    """Quotes, semicolons and dollars of a command are plain text."""
    trap = tmp_path / "trap"
    method = _program(tmp_path, ALONE, f"{{instance}} {{solution}} ';' touch {trap}")
    run_peer(method, _instance(3), BRIEF)
    assert not trap.exists()
    assert os.listdir(tmp_path) == ["program.py"]


@pytest.mark.parametrize("index", range(4))
def test_whole_numbers_keep_the_costs_of_routes(index: int) -> None:
    """What a program sees is the same problem up to a factor."""
    instance = sample_world(30, seed=3, index=index)
    seen = whole_numbers(instance).replace(rounding="round")
    rng = np.random.default_rng(index)
    ratios = []
    for _ in range(5):
        routes = Solution([rng.permutation(np.arange(1, 31))])
        ratios.append(judge(seen, routes).cost / judge(instance, routes).cost)
    assert np.ptp(ratios) < 1e-4 * ratios[0]
    assert seen.min_vehicles == instance.min_vehicles


def test_whole_numbers_of_a_globe_are_a_matrix() -> None:
    """A .vrp file has no distances on the globe, and programs need none."""
    degrees = np.array([[9.1, 45.4], [9.2, 45.5], [9.0, 45.3]])
    seen = whole_numbers(_instance(2, coords=degrees, metric="greatcircle"))
    assert seen.metric == "matrix"
    assert (seen.distances == np.rint(seen.distances)).all()


def test_a_program_is_timed_from_when_it_is_ready(tmp_path: Path) -> None:
    """What comes before the file {ready} is loading, and is told apart."""
    text = (
        "import sys, time; time.sleep(0.5); open(sys.argv[3], 'w').close()\n"
        "open(sys.argv[2], 'w').write('Route #1: 1\\nRoute #2: 2\\nRoute #3: 3\\n')\n"
    )
    method = _program(tmp_path, text, "{instance} {solution} {ready}")
    deadline = Deadline.after(20.0)
    solution, loading = answer_of_peer(method, _instance(3), deadline, seed=0)
    assert judge(_instance(3), solution).feasible
    assert 0.5 <= loading < 20.0


def test_the_user_says_which_programs_search(tmp_path: Path) -> None:
    """`search-free` is a word for us: it decides the heading, and stays here (C7)."""
    routes = "Route #1: 1\\nRoute #2: 2\\nRoute #3: 3\\n"
    text = f"import sys; open(sys.argv[2], 'w').write('{routes}')\n"
    plain = _program(tmp_path, text, "{instance} {solution}")
    free = plain.replace("cmd:", "cmd:search-free ")
    assert Method.of(plain).searches
    assert not Method.of(free).searches
    assert judge(_instance(3), run_peer(free, _instance(3), BRIEF)).feasible
