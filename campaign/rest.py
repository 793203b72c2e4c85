"""What else a machine does: full disks, no rights, crowds, threads, long lives.

python campaign/rest.py [--count 13] [--seconds 600]
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import random
import resource
import shlex
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from kills import PATIENCE, end, left_by, start, whole
from record import Notes, Promise, main

from clusterfirst import (
    ClusterfirstError,
    Instance,
    SolveOptions,
    read_instance,
    sample_world,
    solve,
)
from clusterfirst.files import write_instance
from clusterfirst.learning.labels.labelset import read_labels

OPTIONS = SolveOptions(iterations=3)
QUICK = SolveOptions("savings", iterations=1, polish=False)
SOLVES = 10_000
COUNT = 60  # labels while the disk fills
GROWTH = 0.02  # of memory


def command(
    *words: str | Path | int, prefix: Sequence[str] = (), **how: object
) -> tuple[int, str]:
    """Run a command; exit code and what it said."""
    asked = [*prefix, sys.executable, "-m", "clusterfirst", *map(str, words)]
    ended = subprocess.run(  # type: ignore[call-overload]
        asked, capture_output=True, text=True, timeout=PATIENCE, check=False, **how
    )
    return ended.returncode, ended.stderr


def in_words(code: int, said: str, notes: Notes, what: str) -> None:
    """A refusal is a sentence; 1 is the code of a victim that is no command."""
    if code not in (1, 2, 7) or "Traceback" in said or "E999" in said:
        notes.fail(f"{what}: exit {code}: {said[-300:]}")


def a_day(folder: Path, n: int = 30) -> Path:
    """A file to solve."""
    write_instance(folder / "day.json", sample_world(n, seed=3, index=1))
    return folder / "day.json"


def disk_full(folder: Path, notes: Notes) -> None:
    """No byte can be written: a sentence, and no half of a file."""

    def no_more() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (16, 16))

    day = a_day(folder)
    for name in ("a.sol", "a.json", "a.png", "a.csv"):
        out = folder / name
        code, said = command(
            "solve", day, "--iterations", 1, "--out", out, preexec_fn=no_more
        )
        in_words(code, said, notes, f"disk full, {name}")
        if out.exists():
            notes.fail(f"disk full: {name} is there, {out.stat().st_size} bytes of it")


def disk_full_while_labelling(folder: Path, notes: Notes) -> None:
    """Labels that fit are kept; with room again the same command goes on."""
    out = folder / "labels"
    process = subprocess.Popen(_labelling(out), stderr=subprocess.PIPE)
    shards = _wait_for(out, "*.labels", process)
    resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (3000, 3000))
    code, said = end(process, PATIENCE)
    in_words(code, said, notes, "disk full while labelling")
    if code == 2 and not shards[0].stat().st_size:
        notes.fail("disk full while labelling: the labels made before are gone")
    _labels_go_on(out, notes)


def _labelling(out: Path) -> list[str]:
    """Make more labels than fit into 3,000 bytes."""
    words = f"label world --customers 12 --count {COUNT} --iterations 5 --out"
    return [sys.executable, "-m", "clusterfirst", *words.split(), str(out)]


def _wait_for(folder: Path, name: str, process: subprocess.Popen[bytes]) -> list[Path]:
    """The files of a name, once a command has begun to write them."""
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until and process.poll() is None:
        if found := list(folder.glob(name)):
            return found
        time.sleep(0.005)
    raise AssertionError(f"no {name} in {PATIENCE:g} s")


def _labels_go_on(out: Path, notes: Notes) -> None:
    """The command once more, with room, and all of its labels."""
    code, said = end(
        subprocess.Popen(_labelling(out), stderr=subprocess.PIPE), PATIENCE
    )
    if code != 0:
        notes.fail(f"labelling after a full disk: exit {code}: {said[-200:]}")
        return
    labels = read_labels(out)  # HGS finds nothing for some of the days
    if len(labels) + labels.failures != COUNT:
        notes.fail("labelling after a full disk: labels are missing")


def _mounts() -> list[str]:
    """What gives a command file systems of its own, if that is permitted here."""
    prefix = ["unshare", "--mount"] + (["--map-root-user"] if os.geteuid() else [])
    tried = [*prefix, "mount", "-t", "tmpfs", "none", "/mnt"]
    allowed = subprocess.run(tried, capture_output=True, check=False).returncode == 0
    return prefix if allowed else []


def full_file_system(folder: Path, notes: Notes) -> None:
    """A real file system of 1 MB that somebody else fills while labels are made."""
    prefix = _mounts()
    if not prefix:
        notes.count("file systems of its own are not permitted here")
        return
    place, home = folder / "small", folder / "job"
    place.mkdir()
    label = shlex.join(_labelling(place / "labels"))
    fill = f"cat /dev/zero > {place}/others 2> {folder}/filled"
    script = f"""
        mount -t tmpfs -o size=1m none {place} || exit 9
        {label} 2> {folder}/said & job=$!
        until ls {place}/labels/*.labels > {folder}/seen 2>&1 || ! kill -0 $job
        do sleep 0.005; done
        {fill}
        wait $job; echo $? > {folder}/code
        cd {folder} && {shlex.join(_solving(a_day(folder), place / "a.sol"))} 2> full
        echo $? >> {folder}/code
        rm {place}/others
        cp -r {place}/labels {home}
    """
    asked = [*prefix, "sh", "-c", script]
    ended = subprocess.run(asked, capture_output=True, timeout=PATIENCE, check=False)
    if ended.returncode:
        notes.fail(f"full file system: {ended.stderr[-200:]!r}")
        return
    codes = [int(word) for word in (folder / "code").read_text().split()]
    in_words(codes[0], (folder / "said").read_text(), notes, "labels, full file system")
    said = (folder / "full").read_text()
    in_words(codes[1], said, notes, "solve, full file system")
    if "E732" not in said:
        notes.fail(f"full file system: not called full: {said[-200:]}")
    _labels_go_on(home, notes)


def _solving(day: Path, out: Path) -> list[str]:
    words = ["solve", str(day), "--iterations", "1", "--out", str(out)]
    return [sys.executable, "-m", "clusterfirst", *words]


def read_only_mount(folder: Path, notes: Notes) -> None:
    """A real file system that is mounted read-only, for a file and for a folder."""
    prefix = _mounts()
    if not prefix:
        notes.count("file systems of its own are not permitted here")
        return
    day, place = a_day(folder), folder / "shut"
    place.mkdir()
    mount = f"mount -t tmpfs -o ro none {place} || exit 9;"
    jobs = [_solving(day, place / "a.sol"), _labelling(place / "labels")]
    jobs.append(_labelling(place))
    for job in jobs:
        asked = [*prefix, "sh", "-c", f"{mount} {shlex.join(job)}"]
        ended = subprocess.run(
            asked, capture_output=True, timeout=PATIENCE, check=False
        )
        said = ended.stderr.decode(errors="replace")
        if ended.returncode != 2 or "E731" not in said:
            notes.fail(f"read-only mount: exit {ended.returncode}: {said[-200:]}")


def humbly(*words: str | Path) -> tuple[int, str]:
    """A command for which permissions count, even if root runs the campaign."""
    prefix = []
    if os.geteuid() == 0:
        prefix = ["setpriv", "--bounding-set", "-dac_override,-dac_read_search"]
    return command(*words, prefix=prefix)


def read_only(folder: Path, notes: Notes) -> None:
    """A folder that cannot be written to, as on a read-only mount."""
    day, shut = a_day(folder), folder / "shut"
    shut.mkdir(mode=0o555)
    out = shut / "a.sol"
    code, said = humbly("solve", day, "--iterations", "1", "--out", out)
    in_words(code, said, notes, "read-only folder")
    if any(shut.iterdir()):
        notes.fail("read-only: something was written")


def no_permission(folder: Path, notes: Notes) -> None:
    """A file that may not be read gets a sentence."""
    day = a_day(folder)
    day.chmod(0)
    code, said = humbly("solve", day, "--iterations", "1")
    in_words(code, said, notes, "no permission to read")


def changing(folder: Path, notes: Notes) -> None:
    """A file that changes while it is read is one of the two, or refused."""
    path, done = folder / "day.vrp", threading.Event()
    days = [sample_world(n, seed=3, index=1) for n in (40, 60)]
    write_instance(path, days[0])
    texts = [path.read_bytes()]
    write_instance(path, days[1])
    texts.append(path.read_bytes())

    def rewrite() -> None:
        number = 0
        while not done.is_set():  # the readings below are counted
            number += 1
            path.write_bytes(texts[number % 2])
            time.sleep(0.002 * (number % 5))

    writer = threading.Thread(target=rewrite)
    writer.start()
    try:
        for _ in range(300):
            try:
                found = read_instance(path)
            except ClusterfirstError:
                notes.count("changing file: refused")
                continue
            notes.count("changing file: read")
            if found.num_customers not in (40, 60):
                notes.fail(f"changing file: {found.num_customers} customers")
    finally:
        done.set()
        writer.join()


def _two_in_one(job: str) -> Callable[[Path, Notes], None]:
    def scenario(folder: Path, notes: Notes) -> None:
        expected, _ = whole(job)
        a_day(folder)
        home = folder / "job"
        processes = [start(job, home) for _ in range(2)]
        ends = [end(process, PATIENCE) for process in processes]
        for code, said in ends:
            if code != 0:
                in_words(code, said, notes, f"two {job} in one folder")
        code, said = end(start(job, home), PATIENCE)
        if code != 0:
            notes.fail(f"{job} after two at once: exit {code}: {said[-200:]}")
        elif left_by(job, home) != expected:
            notes.fail(f"two {job} in one folder left something else")
        codes = sorted(code for code, _ in ends)
        notes.count(f"two {job} in one folder: exits {codes[0]} and {codes[1]}")

    scenario.__name__ = f"two_{job}"
    return scenario


def eight_at_once(folder: Path, notes: Notes) -> None:
    """Eight commands at the same time give eight times the same answer."""
    day = a_day(folder, 40)
    outs = [folder / f"{number}.sol" for number in range(8)]
    words = [
        sys.executable,
        "-m",
        "clusterfirst",
        "solve",
        str(day),
        "--iterations",
        "3",
    ]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    processes = [subprocess.Popen([*words, "--out", str(o)], **quiet) for o in outs]
    codes = [process.wait(PATIENCE) for process in processes]
    if any(codes) or len({out.read_bytes() for out in outs}) != 1:
        notes.fail(f"eight at once: exits {codes}, or answers differ")


def long_life(folder: Path, notes: Notes) -> None:
    """Ten thousand solves in one process: memory stays where it was."""
    words = [sys.executable, str(Path(__file__)), "--long-life", str(SOLVES)]
    ended = subprocess.run(words, capture_output=True, text=True, check=True)
    first, last = map(float, ended.stdout.split())
    notes.value(
        "growth of memory over 10,000 solves, per cent", 100 * (last / first - 1)
    )
    if last > first * (1 + GROWTH):
        notes.fail(f"memory grew from {first:.0f} to {last:.0f} kB")


def live_long(count: int) -> None:
    """Solve small days; print memory (kB) after a fifth of them, and at the end."""
    days = [sample_world(n, seed=8, index=n) for n in range(5, 45)]
    for number in range(count):
        options = OPTIONS if number % 10 == 0 else QUICK
        solve(days[number % len(days)], options)
        if number + 1 == count // 5:
            print(_memory())
    print(_memory())


def _memory() -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1])
    return 0


def _costs(days: list[Instance]) -> list[float]:
    return [_cost(day) for day in days]


def _cost(day: Instance) -> float:
    return solve(day, OPTIONS).verdict.cost


def _days(folder: Path) -> list[Instance]:
    seed = random.Random(str(folder)).randrange(10**6)
    return [sample_world(25, seed=seed, index=i) for i in range(16)]


def four_threads(folder: Path, notes: Notes) -> None:
    """Answers from four threads are those of one."""
    days = _days(folder)
    with ThreadPoolExecutor(4) as pool:
        if list(pool.map(_cost, days)) != _costs(days):
            notes.fail("four threads: other answers")


def spawned(folder: Path, notes: Notes) -> None:
    """Answers from spawned processes are those of this one."""
    days = _days(folder)
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(2, mp_context=context) as pool:
        if list(pool.map(_cost, days, chunksize=8)) != _costs(days):
            notes.fail("spawned processes: other answers")


def in_a_loop(folder: Path, notes: Notes) -> None:
    """Awaited in threads, answers are the same and the loop goes on."""
    days = _days(folder)

    async def all_of_them() -> tuple[list[float], float]:
        waits = []

        async def tick() -> None:
            while True:  # cancelled below
                before = time.perf_counter()
                await asyncio.sleep(0.01)
                waits.append(time.perf_counter() - before)

        ticking = asyncio.create_task(tick())
        found = await asyncio.gather(*(asyncio.to_thread(_cost, day) for day in days))
        ticking.cancel()
        return list(found), max(waits, default=0.0)

    found, longest = asyncio.run(all_of_them())
    notes.value("longest wait of an event loop beside solves, seconds", longest)
    if found != _costs(days):
        notes.fail("asyncio: other answers")


SCENARIOS = (
    disk_full,
    disk_full_while_labelling,
    read_only,
    no_permission,
    changing,
    *(_two_in_one(job) for job in ("label", "train", "pretrain", "learn", "bench")),
    eight_at_once,
    long_life,
    four_threads,
    spawned,
    in_a_loop,
    full_file_system,
    read_only_mount,
)


def one(number: int, notes: Notes) -> None:
    """One scenario in a folder of its own."""
    scenario = SCENARIOS[number % len(SCENARIOS)]
    with tempfile.TemporaryDirectory(prefix="campaign-") as name:
        scenario(Path(name), notes)
    notes.count(scenario.__name__)


PROMISE = Promise(
    "rest",
    "Full disks and file systems, read-only mounts, no permission, changing files, two "
    "in one folder, eight at once, threads, spawned processes and event loops end in "
    "right answers or sentences; memory stays flat over 10,000 solves.",
    full=10 * len(SCENARIOS),
    case=one,
    unit=f"scenarios ({len(SCENARIOS)} kinds)",
    seconds=300.0,
)

if __name__ == "__main__":
    if sys.argv[1:2] == ["--long-life"]:
        live_long(int(sys.argv[2]))
    else:
        sys.exit(main(PROMISE))
