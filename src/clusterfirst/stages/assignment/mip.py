"""One binary program, solved by HiGHS under a wall clock that holds.

HiGHS is not trusted further than it has to be (research notes: wrong "Optimal" on
NaN, loads 1e-6 over capacity, time limits that overshoot in presolve, "Infeasible"
for feasible models with presolve on). So: data are checked before; it runs in a
thread of its own, is asked to stop by its interrupt callbacks, and is abandoned when
it does not listen; and the caller gets a 0/1 point and a *claim*, both of which it
has to verify in integers.
"""

from __future__ import annotations

import atexit
import importlib
import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any

import numpy as np
import numpy.typing as npt

from clusterfirst.problem.clock import Deadline
from clusterfirst.problem.instance import FloatArray, IntArray

PATIENCE = 0.03  # seconds past the deadline before HiGHS is abandoned
POLL = 0.25  # seconds between looks at the keyboard while HiGHS runs
# Without a clock counts end the solve, so that equal input gives equal answers.
UNTIMED_NODES = 200  # branch-and-bound nodes, unless the settings say otherwise
UNTIMED_CHECKS = 50_000  # times HiGHS asks whether to stop: also bounds the root node

# Two HiGHS objects in two threads have crashed (HiGHS PR 3141), so one runs at a
# time. An abandoned solve keeps the lock until it ends.
_one_at_a_time = threading.Lock()
# The process must not end under a running solve: that aborts it (seen with 1.15.1).
atexit.register(_one_at_a_time.acquire, timeout=5.0)


class Claim(Enum):
    """What HiGHS says about a model; never a fact before it is verified."""

    OPTIMAL = "optimal within the gap"
    INFEASIBLE = "infeasible"
    STOPPED = "stopped by a limit"
    FAILED = "no usable answer"


@dataclass(frozen=True)
class BinaryProgram:
    """min cost.x with row_lower <= A x <= row_upper and x binary; A by columns."""

    cost: FloatArray  # (columns,)
    row_lower: FloatArray  # (rows,)
    row_upper: FloatArray
    starts: IntArray  # (columns + 1,) where each column's entries begin
    rows: IntArray  # (entries,)
    values: FloatArray  # (entries,)


@dataclass(frozen=True)
class MipSettings:
    """How far HiGHS goes; with `max_nodes` instead of a clock it is repeatable.

    A solve without a clock stops after UNTIMED_NODES where `max_nodes` is None.
    """

    rel_gap: float = 0.001
    max_nodes: int | None = None
    seed: int = 0
    presolve: bool = True


@dataclass
class MipAnswer:
    """A rounded 0/1 point (or None), what HiGHS claims, and its dual bound."""

    claim: Claim = Claim.FAILED
    point: npt.NDArray[np.bool_] | None = None
    bound: float = -np.inf


@dataclass
class _Run:
    """What the solver thread and the caller share."""

    stop: threading.Event = field(default_factory=threading.Event)
    done: threading.Event = field(default_factory=threading.Event)
    most_checks: float = np.inf  # of HiGHS whether to stop; then it stops
    checks: int = 0
    best: FloatArray | None = None  # newest improving point, for abandoned solves
    answer: MipAnswer = field(default_factory=MipAnswer)


def solve_binary(
    program: BinaryProgram,
    settings: MipSettings,
    deadline: Deadline,
    warm: npt.NDArray[np.bool_] | None = None,
) -> MipAnswer:
    """Solve until optimal within the gap, a node limit, or the deadline.

    Always ends: without a deadline nodes and checks are counted. Returns by the
    deadline (plus PATIENCE) whatever HiGHS does. The point of a stopped solve is its
    best one so far, if it had any.
    """
    numbers = np.concatenate([program.cost, program.values])
    if not len(program.cost) or not np.isfinite(numbers).all():  # HiGHS does not look
        return MipAnswer()
    left = deadline.left()
    untimed = left == np.inf
    if untimed and settings.max_nodes is None:
        settings = replace(settings, max_nodes=UNTIMED_NODES)
    # Untimed, this waits for the solve of another thread, which ends for one of
    # the reasons above.
    if not _one_at_a_time.acquire(timeout=-1 if untimed else max(left, 0.0)):
        return MipAnswer()  # an abandoned solve still runs
    run = _Run(most_checks=UNTIMED_CHECKS if untimed else np.inf)
    thread = threading.Thread(
        target=_in_thread, args=(program, settings, deadline, warm, run), daemon=True
    )
    thread.start()
    try:
        while not run.done.is_set():  # `_in_thread` sets it whatever happens
            if deadline.passed():
                run.stop.set()
                if not run.done.wait(PATIENCE):
                    return MipAnswer(Claim.STOPPED, _rounded(run.best))
                break
            run.done.wait(min(POLL, deadline.left()))
    finally:  # also after Ctrl-C: the thread must not go on for nothing
        run.stop.set()
    return run.answer


def _in_thread(
    program: BinaryProgram,
    settings: MipSettings,
    deadline: Deadline,
    warm: npt.NDArray[np.bool_] | None,
    run: _Run,
) -> None:
    try:
        run.answer = _run_highs(program, settings, deadline, warm, run)
    except Exception:  # the boundary to native code: whatever it was, no answer
        run.answer = MipAnswer()
    finally:
        _one_at_a_time.release()
        run.done.set()


def _run_highs(
    program: BinaryProgram,
    settings: MipSettings,
    deadline: Deadline,
    warm: npt.NDArray[np.bool_] | None,
    run: _Run,
) -> MipAnswer:
    highspy: Any = importlib.import_module("highspy")  # its type hints leave much out
    highs = highspy.Highs()
    _set_options(highs, settings, deadline)
    _listen(highs, run)
    columns, rows = len(program.cost), len(program.row_lower)
    # Costs of order one, whatever the user's unit: tolerances are absolute.
    scale = max(float(np.abs(program.cost).max()), 1e-300)
    status = highs.passModel(
        columns,
        rows,
        len(program.rows),
        int(highspy.MatrixFormat.kColwise),
        int(highspy.ObjSense.kMinimize),
        0.0,
        program.cost / scale,
        np.zeros(columns),
        np.ones(columns),
        program.row_lower,
        program.row_upper,
        program.starts.astype(np.int32),
        program.rows.astype(np.int32),
        program.values,
        np.full(columns, int(highspy.HighsVarType.kInteger), dtype=np.int32),
    )
    if status == highspy.HighsStatus.kError:
        return MipAnswer()
    if warm is not None:
        highs.setSolution(
            columns, np.arange(columns, dtype=np.int32), warm.astype(float)
        )
    if run.stop.is_set() or highs.run() == highspy.HighsStatus.kError:
        return MipAnswer()
    info = highs.getInfo()
    has_point = (
        info.primal_solution_status == highspy.SolutionStatus.kSolutionStatusFeasible
    )
    point = np.array(highs.getSolution().col_value) if has_point else run.best
    claims = {
        highspy.HighsModelStatus.kOptimal: Claim.OPTIMAL,
        highspy.HighsModelStatus.kInfeasible: Claim.INFEASIBLE,
    }
    claim = claims.get(highs.getModelStatus(), Claim.STOPPED)
    return MipAnswer(claim, _rounded(point), float(info.mip_dual_bound) * scale)


def _set_options(highs: Any, settings: MipSettings, deadline: Deadline) -> None:
    highs.silent()
    # One thread, always: another value later in the process makes run() fail.
    highs.setOptionValue("threads", 1)
    highs.setOptionValue("random_seed", settings.seed % (2**31 - 1))
    highs.setOptionValue("mip_rel_gap", settings.rel_gap)
    highs.setOptionValue("presolve", "on" if settings.presolve else "off")
    if settings.max_nodes is not None:
        highs.setOptionValue("mip_max_nodes", settings.max_nodes)
    if deadline.left() < np.inf:
        highs.setOptionValue("time_limit", max(deadline.left(), 1e-3))


def _listen(highs: Any, run: _Run) -> None:
    """Let HiGHS be stopped from outside, and keep its improving points."""

    def stop(event: Any) -> None:
        run.checks += 1
        if run.stop.is_set() or run.checks > run.most_checks:
            event.interrupt()

    def keep(event: Any) -> None:
        run.best = np.array(event.data_out.mip_solution)

    listeners: list[tuple[Any, Callable[[Any], None]]] = [
        (highs.cbMipInterrupt, stop),
        (highs.cbSimplexInterrupt, stop),
        (highs.cbMipImprovingSolution, keep),
    ]
    for callback, listener in listeners:
        callback.subscribe(listener)


def _rounded(point: FloatArray | None) -> npt.NDArray[np.bool_] | None:
    return None if point is None or not np.isfinite(point).all() else point > 0.5
