"""Cases by number, counted on disk: the same command goes on where the last one ended.

A promise has cases 0, 1, 2, ... that depend on their number alone, so every failure
can be run again (`--again`), on any machine. What is kept: how many were run at which
commit and load, every failure until its case has been run again, which cases were,
counts of what came out, and measured values. Old cases may be repeated (`--repeat`)
with the code of today; that stands beside the record and changes nothing in it.
"""

from __future__ import annotations

import argparse
import faulthandler
import json
import os
import signal
import subprocess
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "campaign" / "results"
SAVE_SECONDS = 10.0  # between saves and lines of progress
MOST_FAILURES = 200  # kept in words; all are counted


class HangError(BaseException):
    """A case took longer than its time."""


@dataclass
class Notes:
    """What a case found out."""

    counts: Counter[str] = field(default_factory=Counter)
    values: dict[str, list[float]] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)

    def count(self, word: str, more: int = 1) -> None:
        """Add to a count."""
        self.counts[word] += more

    def value(self, name: str, number: float) -> None:
        """Keep a measured number."""
        self.values.setdefault(name, []).append(round(float(number), 4))

    def fail(self, text: str) -> None:
        """Say what is wrong."""
        self.failures.append(text[:500])


@dataclass(frozen=True)
class Promise:
    """What is claimed, and how one case of it is tried."""

    name: str  # of the script and its results
    claim: str  # a sentence of docs/reliability.md
    full: int  # cases
    case: Callable[[int, Notes], None]
    unit: str = "cases"
    seconds: float = 60.0  # of CPU, or ten times that by the clock: then a case hangs
    prepare: Callable[[], object] | None = None  # compile and load, before any is timed
    kind: Callable[[int], str] = lambda number: ""  # of a case, for --only


def main(promise: Promise, arguments: list[str] | None = None) -> int:
    """Run more cases of a promise; 1 if any failure is on record."""
    parser = argparse.ArgumentParser(description=promise.claim)
    parser.add_argument("--count", type=int, help="cases to run now; default: the rest")
    parser.add_argument("--seconds", type=float, help="stop after so many")
    parser.add_argument(
        "--again", action="store_true", help="run the failed ones again"
    )
    parser.add_argument("--repeat", type=int, help="run the first so many once more")
    parser.add_argument("--only", default="", help="of these the kinds with this word")
    parser.add_argument("--results", type=Path, default=RESULTS)
    given = parser.parse_args(arguments)
    faulthandler.register(signal.SIGUSR1)  # where is it? kill -USR1
    path = given.results / f"{promise.name}.json"
    record = load(promise, path)
    mode = "again" if given.again else "repeat" if given.repeat else "on"
    numbers = _numbers(promise, record, given)
    if promise.prepare is not None and numbers:
        promise.prepare()
    with _stoppable() as stopped:
        _run(promise, record, numbers, (path, given.seconds, mode, stopped))
    for failure in record["failures"][:20]:
        print(f"case {failure['case']}: {failure['what']}", file=sys.stderr)
    return 1 if record["failures"] else 0


def _numbers(
    promise: Promise, record: dict[str, Any], given: argparse.Namespace
) -> list[int]:
    """The cases to run now."""
    if given.again:
        return sorted({failure["case"] for failure in record["failures"]})
    if given.repeat:
        first = range(min(given.repeat, record["done"]))
        return [number for number in first if given.only in promise.kind(number)]
    rest = max(0, promise.full - record["done"])
    count = rest if given.count is None else given.count
    return list(range(record["done"], record["done"] + count))


def load(promise: Promise, path: Path) -> dict[str, Any]:
    """What is on record of a promise so far."""
    record: dict[str, Any] = {"done": 0, "failed": 0, "failures": [], "slices": []}
    record |= {"counts": {}, "values": {}, "again": [], "repeated": []}
    if path.exists():
        record |= json.loads(path.read_text(encoding="utf-8"))
    words = {"name": promise.name, "claim": promise.claim, "full": promise.full}
    return words | {"unit": promise.unit} | record | words


def _run(
    promise: Promise,
    record: dict[str, Any],
    numbers: list[int],
    how: tuple[Path, float | None, str, list[bool]],
) -> None:
    path, seconds, mode, stopped = how
    start = saved = time.monotonic()
    piece = _new_slice(record["done"])
    if mode == "repeat" and numbers:
        record["repeated"].append(
            {"cases": 0, "to": 0, "counts": {}}
            | {"commit": commit(), "date": piece["date"]}
        )
    for place, number in enumerate(numbers):
        late = seconds is not None and time.monotonic() - start > seconds
        if stopped or late:
            break
        _take(record, number, attempt(promise, number), mode)
        if time.monotonic() - saved > SAVE_SECONDS:
            saved = time.monotonic()
            _save(path, record, piece, saved - start)
            said = f"{promise.name}: {place + 1} of {len(numbers)} now, "
            said += f"{record['done']} of {promise.full} in all, "
            print(said + f"{len(record['failures'])} failures", file=sys.stderr)
    _save(path, record, piece, time.monotonic() - start)


def _take(record: dict[str, Any], number: int, notes: Notes, mode: str) -> None:
    """Put on record what a case found, run for the first time or once more."""
    counts = dict(notes.counts)
    if mode == "again":  # only now: until a case has been run again it stays failed
        before = [one for one in record["failures"] if one["case"] == number]
        record["failures"] = [one for one in record["failures"] if one not in before]
        _add(record["counts"], before[0].get("counts", {}), -1)
        facts = {"counts": counts, "mended": not notes.failures, "commit": commit()}
        record["again"].append({"case": number} | facts)
    if mode == "repeat":
        record["repeated"][-1]["cases"] += 1
        record["repeated"][-1]["to"] = number + 1
        _add(record["repeated"][-1]["counts"], counts, 1)
        counts = {}
    if mode == "on":
        record["failed"] += len(notes.failures)
        record["done"] = number + 1
        for name, values in notes.values.items():
            record["values"].setdefault(name, []).extend(values)
    _add(record["counts"], counts, 1)
    for what in notes.failures:
        if len(record["failures"]) < MOST_FAILURES:
            record["failures"].append({"case": number, "what": what, "counts": counts})


def _add(counts: dict[str, int], more: dict[str, int], sign: int) -> None:
    for word, number in more.items():
        counts[word] = counts.get(word, 0) + sign * number


def attempt(promise: Promise, number: int) -> Notes:
    """Run one case; what it raises is a failure, and so is a hang."""
    notes = Notes()

    def hang(signum: int, frame: FrameType | None) -> None:
        raise HangError(f"not done after {promise.seconds:g} s")

    # On a busy machine a second of the clock may be a tenth of one of work.
    limits = {
        signal.SIGPROF: (signal.ITIMER_PROF, promise.seconds),
        signal.SIGALRM: (signal.ITIMER_REAL, 10 * promise.seconds),
    }
    before = {number: signal.signal(number, hang) for number in limits}
    for timer, seconds in limits.values():
        signal.setitimer(timer, seconds)
    try:
        promise.case(number, notes)
    except (Exception, HangError) as error:  # whatever it is, it is the finding
        where = traceback.extract_tb(error.__traceback__)[-1]
        place = f"{Path(where.filename).name}:{where.lineno}"
        notes.fail(f"{type(error).__name__} at {place}: {error}")
    finally:
        for timer, _ in limits.values():
            signal.setitimer(timer, 0)
        for sent, handler in before.items():
            signal.signal(sent, handler)
    return notes


@contextmanager
def _stoppable() -> Iterator[list[bool]]:
    """End after the present case on Ctrl-C or SIGTERM; what is done is kept."""
    stopped: list[bool] = []
    asked = {s: signal.signal(s, lambda *_: stopped.append(True)) for s in (2, 15)}
    try:
        yield stopped
    finally:
        for number, handler in asked.items():
            signal.signal(number, handler)


def _new_slice(first: int) -> dict[str, Any]:
    return {"from": first, "commit": commit(), "date": f"{datetime.now(UTC):%Y-%m-%d}"}


def commit() -> str:
    """The commit that runs, in short."""
    asked = ["git", "-C", str(ROOT), "rev-parse", "--short", "HEAD"]
    found = subprocess.run(asked, capture_output=True, text=True, check=False)
    return found.stdout.strip() or "unknown"


def _save(
    path: Path, record: dict[str, Any], piece: dict[str, Any], seconds: float
) -> None:
    """Write the record as a whole: a kill leaves the one before."""
    load = round(os.getloadavg()[0], 1)
    now = piece | {"to": record["done"], "seconds": round(seconds), "load": load}
    earlier = [one for one in record["slices"] if one["to"] <= piece["from"]]
    if earlier and earlier[-1]["commit"] == now["commit"]:
        last = earlier.pop()
        now["from"] = last["from"]
        now["seconds"] += last["seconds"]
    slices = [*earlier, *([now] if now["to"] > now["from"] else [])]
    path.parent.mkdir(parents=True, exist_ok=True)
    whole = record | {
        "slices": slices,
        "counts": dict(sorted(record["counts"].items())),
    }
    new = path.with_suffix(".new")
    new.write_text(json.dumps(whole, indent=1) + "\n", encoding="utf-8")
    new.replace(path)
