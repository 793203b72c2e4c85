"""How long each phase of each command takes to end after Ctrl-C.

    python benchmarks/ctrl_c.py [--times 3] [--only learn pretrain]

A command runs in a process group of its own, as in a terminal, and gets SIGINT once it
listens and its line of progress says that the phase has begun, at a random moment of
the next two seconds. Measured: seconds until it and all its children are gone, the exit
code, and CPU seconds of one busy loop beside it: what share of a core there was.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PATIENCE = 300.0  # seconds until a phase begins
LABELS = ROOT / "labels"


@dataclass(frozen=True)
class Phase:
    """A command, and what it says when the phase has begun ("" = at once)."""

    words: str
    begun: str = ""
    cold: bool = False  # with an empty cache of kernels


PHASES = {
    "start": Phase("solve {day} --time-limit 30"),
    "compile": Phase("solve {day} --time-limit 30", "compil", cold=True),
    "solve": Phase("solve {day} --time-limit 60"),
    "solve general": Phase("solve {day} --method neural --time-limit 60"),
    "solve exact": Phase("solve {day} --method neural --assign exact --time-limit 60"),
    "solve iterations": Phase("solve {large} --iterations 100000000"),
    "explain": Phase("explain {day} --out {out}.csv"),
    "label": Phase("label bundled --count 500 --seconds 5 --workers 2 --out {out}"),
    "pretrain": Phase("pretrain bundled --out {out}", "epoch"),
    "train": Phase("train --labels {labels} --config general --out {out}", "step"),
    "learn, psi": Phase("learn bundled --hours 1 --out {out}", "1/4"),
    "learn, labels": Phase("learn bundled --hours 0.05 --out {out}", "2/4"),
    "learn, references": Phase("learn bundled --hours 0.01 --out {out}", "3/4"),
    "learn, training": Phase("learn bundled --hours 0.01 --out {out}", "4/4"),
    "bench": Phase("bench --city bundled --methods savings+polish,hgs --out {out}"),
    "paper": Phase("paper main-b --instances 4 --out {out}"),
    "quote": Phase("quote bundled --orders {orders} --demand 2 --id 17"),
    "forecast": Phase("forecast bundled --days 500"),
}


def measure(phase: Phase, rng: random.Random) -> tuple[float, int]:
    """Seconds from SIGINT to the end of the last process, and the exit code."""
    with tempfile.TemporaryDirectory(prefix="ctrl-c-") as name:
        home = Path(name)
        words = phase.words.format(**inputs(home), out=home / "out").split()
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        if phase.cold:
            environment["NUMBA_CACHE_DIR"] = str(home / "cache")
        with (home / "said").open("w+") as said:
            process = subprocess.Popen(
                [sys.executable, "-m", "clusterfirst", *words],
                stdout=subprocess.DEVNULL,
                stderr=said,
                env=environment,
                start_new_session=True,
            )
            until = time.monotonic() + PATIENCE
            said_so = home / "said"
            while phase.begun not in said_so.read_text() or not listens(process.pid):
                if process.poll() is not None or time.monotonic() > until:
                    raise SystemExit((home / "said").read_text()[-500:])
                time.sleep(0.02)
            time.sleep(rng.uniform(0.3, 2.5))
            ended = process.poll() is not None
            start = time.monotonic()
            if not ended:
                os.killpg(process.pid, signal.SIGINT)
            code = process.wait()
            while alive(process.pid):
                time.sleep(0.01)
            return time.monotonic() - start, -999 if ended else code


def inputs(home: Path) -> dict[str, Path]:
    """Days of several sizes, and where labels lie."""
    from clusterfirst.files import BUNDLED_ORDERS, write_instance
    from clusterfirst.problem.sampling import sample_world

    write_instance(home / "day.json", sample_world(500, seed=1, index=0))
    write_instance(home / "large.json", sample_world(2000, seed=1, index=0))
    found = sorted(path.parent for path in LABELS.rglob("*.labels"))
    return {
        "day": home / "day.json",
        "large": home / "large.json",
        "orders": Path(BUNDLED_ORDERS),
        "labels": found[0],
    }


def listens(pid: int) -> bool:
    """Whether the command has its handlers: before that Python itself answers."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return True
    caught = int(status.partition("SigCgt:")[2].split()[0], 16)
    return bool(caught >> (signal.SIGTERM - 1) & 1)


def alive(group: int) -> bool:
    """Whether a process of the group is left."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                facts = (entry / "stat").read_text().rsplit(")", 1)[1].split()
            except OSError:
                continue
            if int(facts[2]) == group and facts[0] != "Z":
                return True
    return False


def share_of_a_core() -> float:
    """What part of half a second of one busy loop was computed."""
    start, used = time.perf_counter(), time.process_time()
    while time.perf_counter() - start < 0.5:
        pass
    return (time.process_time() - used) / (time.perf_counter() - start)


def main() -> None:
    """Measure and print, a line per phase; JSON to a file if asked."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--times", type=int, default=3)
    parser.add_argument("--only", nargs="+", choices=list(PHASES), default=None)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    rng, found = random.Random(0), {}
    # What a shell runs in its background is deaf to Ctrl-C, and so are its children.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for name in given.only or PHASES:
        runs = [measure(PHASES[name], rng) for _ in range(given.times)]
        seconds = [round(one, 2) for one, _ in runs]
        found[name] = {"seconds": seconds, "codes": [code for _, code in runs]}
        found[name] |= {"core": round(share_of_a_core(), 2)}
        print(f"{name:<18}{found[name]}, load {os.getloadavg()[0]:.1f}", flush=True)
    if given.out:
        given.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
