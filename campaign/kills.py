"""A kill at any moment loses nothing that was promised.

    python campaign/kills.py [--count 10] [--seconds 600]

A job of `victims.py` is killed at a random moment (SIGKILL, SIGTERM or SIGINT, to the
whole group or to the first process), perhaps again when it is resumed, and then left
to end. What it leaves must be that of a run that was never killed: to the byte where
that is promised, whole and readable elsewhere. No process may be left behind. A job
that ended before its kill is begun anew: every case is a kill that hit.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from functools import cache
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from record import Notes, Promise, main
from victims import BEGUN

from clusterfirst import bundled_city, read_instance, read_solution, sample_day
from clusterfirst.files import write_instance
from clusterfirst.learning.labels.making import merge
from clusterfirst.networks.model_folder import read_model

VICTIM = Path(__file__).with_name("victims.py")
JOBS = ("label", "label", "pretrain", "train", "learn", "bench", "solve")
SIGNALS = (signal.SIGKILL, signal.SIGKILL, signal.SIGTERM, signal.SIGINT)
PATIENCE = 300.0  # seconds of a job on a busy machine
LEAVING = 60.0  # seconds after SIGTERM or SIGINT, as busy as it may be here
HALF = (".tmp", ".new", ".part")
MOMENTS = (0.05, 0.9)  # of the time the job takes, from its imports to its last file
AGAIN = 0.33  # of the cases: a second kill, of the run that resumes
MISSES = 8  # kills in a row that come too late; the moments are drawn earlier each time


def start(job: str, folder: Path) -> subprocess.Popen[bytes]:
    """Begin a job in a process group of its own."""
    folder.with_name(BEGUN).unlink(missing_ok=True)
    command = [sys.executable, "-W", "ignore", str(VICTIM), job, str(folder)]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE}
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(command, start_new_session=True, env=environment, **quiet)  # type: ignore[call-overload]


def wait_for(folder: Path, process: subprocess.Popen[bytes]) -> None:
    """Until Python itself is up and the job answers signals."""
    begun = folder.with_name(BEGUN)
    while not begun.exists() and process.poll() is None:
        time.sleep(0.005)


def end(process: subprocess.Popen[bytes], seconds: float) -> tuple[int, str]:
    """Wait for it; a job that does not end is a finding."""
    try:
        _, said = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        raise AssertionError(f"not ended after {seconds:g} s") from None
    return process.returncode, said.decode(errors="replace")


def orphans(group: int) -> list[int]:
    """Processes of a group that are still there and alive."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                facts = (entry / "stat").read_text().rsplit(")", 1)[1].split()
            except OSError:
                continue
            if int(facts[2]) == group and facts[0] != "Z":
                found.append(int(entry.name))
    return found


@cache
def whole(job: str) -> tuple[str, float]:
    """What a run that nobody kills leaves, and how long it takes."""
    with tempfile.TemporaryDirectory(prefix="campaign-") as name:
        folder = _home(Path(name))
        process = start(job, folder)
        wait_for(folder, process)
        begin = time.monotonic()
        code, said = end(process, PATIENCE)
        assert code == 0, said
        return left_by(job, folder), time.monotonic() - begin


def _home(place: Path) -> Path:
    """An empty place to work in, with a day beside it."""
    write_instance(place / "day.json", sample_day(bundled_city(), 30, seed=4, index=0))
    return place / "job"


def left_by(job: str, folder: Path) -> str:
    """A digest of what is promised to be the same; raises where something is broken."""
    half = [path.name for path in folder.rglob("*") if path.name.endswith(HALF)]
    assert not half, f"half-written files are left: {half}"
    if job == "label":  # in one order, whatever the kills did
        together = folder.parent / "merged"
        shutil.rmtree(together, ignore_errors=True)
        merge([folder], together)
        return _digest(together, ".labels")
    if job in ("pretrain", "train"):
        return _digest(folder, ".safetensors")
    if job == "learn":  # stages are timed: the model must be whole, not equal
        read_model(folder / "model")
        return "whole"
    if job == "bench":
        rows = (folder / "rows.jsonl").read_text(encoding="utf-8").splitlines()
        keys = sorted(
            str([row.get(k) for k in ("digest", "method", "limit", "seed")])
            for row in map(json.loads, rows)
            if "digest" in row
        )
        assert len(keys) == len(set(keys)), "a run was made twice"
        return hashlib.sha256("".join(keys).encode()).hexdigest()
    day = read_instance(folder.parent / "day.json")
    read_solution(folder / "a.sol", day)
    read_solution(folder / "a.json", day)
    return _digest(folder, ".sol", ".csv")


def _digest(folder: Path, *suffixes: str) -> str:
    """Of all files with these suffixes, names included; newest checkpoints only."""
    found = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        if path.suffix in suffixes and "checkpoints" not in path.parts:
            found.update(str(path.relative_to(folder)).encode() + path.read_bytes())
    if "labels" not in suffixes[0]:
        newest = sorted(folder.glob("checkpoints/*"))[-1:]
        for path in sorted(p for top in newest for p in top.glob("*.safetensors")):
            found.update(path.read_bytes())
    return found.hexdigest()


def one(number: int, notes: Notes) -> None:
    """Kill a job once or more, resume it, compare."""
    rng = random.Random(f"kills {number}")
    job = JOBS[number % len(JOBS)]
    expected, seconds = whole(job)
    for late in range(MISSES):
        with tempfile.TemporaryDirectory(prefix="campaign-") as name:
            folder = _home(Path(name))
            if not _killed(job, folder, rng, 0.8**late * seconds, notes):
                notes.count(f"{job}: ended before its kill, begun anew")
                continue
            if rng.random() < AGAIN:  # it may end before; its first kill has hit
                _killed(job, folder, rng, seconds, notes)
            code, said = end(start(job, folder), PATIENCE)
            if code != 0:
                notes.fail(f"{job} resumed: exit {code}: {said[-300:]}")
            elif left_by(job, folder) != expected:
                notes.fail(f"{job} resumed: not what a run without a kill leaves")
            return
    notes.fail(f"{job}: {MISSES} kills came too late")


def _killed(
    job: str, folder: Path, rng: random.Random, seconds: float, notes: Notes
) -> bool:
    """Whether a kill within the seconds a job takes hit it running; what it left."""
    process = start(job, folder)
    wait_for(folder, process)
    time.sleep(rng.uniform(*MOMENTS) * seconds)
    sent = rng.choice(SIGNALS)
    everyone = sent != signal.SIGKILL or rng.random() < 0.5
    running = process.poll() is None
    with suppress(ProcessLookupError):  # it may have ended just now
        (os.killpg if everyone else os.kill)(process.pid, sent)
    code, said = end(process, LEAVING)
    if "Traceback" in said or "E999" in said:
        notes.fail(f"{job} after {sent.name}: {said[-300:]}")
    # After its last line Python itself ends by the signal: all is written then.
    if code not in (0, 130, -sent):
        notes.fail(f"{job} after {sent.name}: exit {code}: {said[-200:]}")
    gone = time.monotonic() + LEAVING
    while orphans(process.pid) and time.monotonic() < gone:
        time.sleep(0.05)
    if orphans(process.pid):
        notes.fail(f"{job} after {sent.name}: a child is left")
        os.killpg(process.pid, signal.SIGKILL)
    hit = running and code != 0
    if hit:
        notes.count(f"{job}: {sent.name}")
    return hit


PROMISE = Promise(
    "kills",
    "A kill at any moment loses nothing: resumed, `label`, `pretrain`, `train` leave "
    "the bytes of a run that was never killed, `bench` the same rows, `learn` a whole "
    "model, `solve --out` the same files; no half-written file, no child left.",
    full=700,
    case=one,
    unit="runs killed while they ran (two of seven `label`)",
    seconds=300.0,
)

if __name__ == "__main__":
    sys.exit(main(PROMISE))
