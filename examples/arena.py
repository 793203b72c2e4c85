"""Run SAVANT, FILO2 or LKH-3, where you have them, as a method of `clusterfirst bench`.

    clusterfirst bench X --seconds 1 --methods neural+polish \\
      --methods 'cmd:python examples/arena.py savant PATH/cw {instance} {solution} {seconds} {seed}' \\
      --methods 'cmd:python examples/arena.py filo2 PATH/filo2 {instance} {solution} {seconds} {seed}' \\
      --methods 'cmd:python examples/arena.py lkh PATH/LKH {instance} {solution} {seconds} {seed}'

Each program is called with its authors' defaults, and its answer is rewritten as a
CVRPLIB .sol, which `bench` judges. SAVANT and FILO2 count steps, not seconds: short
first runs measure their pace, within the seconds. AILS-II prints costs and no routes:
put them into a table (method,seconds,instance,cost) for `bench --published`.
"""  # noqa: E501

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

GROWTH = 10  # of a run to the next: how well the pace is known
SAVANT_FIRST = 20_000  # steps of its first run
FILO2_FIRST = 200
LKH_TRIALS = 1_000_000  # its default, the dimension, ends long before the time

Routes = list[list[int]]


def savant(program: str, instance: Path, seconds: float, seed: int) -> Routes:
    """Annealing whose length is a number of steps."""

    def run(steps: int, folder: Path) -> Routes:
        found = folder / "savant.txt"
        words = [program, "--dir", str(instance.parent), "--round", "--threads", "1"]
        words += ["--sa-steps", str(steps), "--seed", str(seed), "--sol", str(found)]
        call(words)
        return savant_routes(found.read_text())

    return paced(run, SAVANT_FIRST, seconds)


def filo2(program: str, instance: Path, seconds: float, seed: int) -> Routes:
    """Iterated local search whose length is a number of iterations."""

    def run(steps: int, folder: Path) -> Routes:
        words = [program, str(instance), "--outpath", f"{folder}/"]
        words += ["--seed", str(seed), "--coreopt-iterations", str(steps)]
        call(words)
        (found,) = folder.glob("*.sol")
        return sol_routes(found.read_text())

    return paced(run, FILO2_FIRST, seconds)


def lkh(program: str, instance: Path, seconds: float, seed: int) -> Routes:
    """LKH-3 by a parameter file."""
    with tempfile.TemporaryDirectory() as folder:
        found, parameters = Path(folder) / "lkh.txt", Path(folder) / "lkh.par"
        parameters.write_text(
            f"PROBLEM_FILE = {instance}\nMTSP_SOLUTION_FILE = {found}\nRUNS = 1\n"
            f"MAX_TRIALS = {LKH_TRIALS}\nTIME_LIMIT = {seconds:g}\nSEED = {seed + 1}\n"
        )
        call([program, str(parameters)])
        return lkh_routes(found.read_text())


def paced(run: Callable[[int, Path], Routes], first: int, seconds: float) -> Routes:
    """Ever longer runs, the last of which takes what is left of the seconds."""
    end, steps = time.perf_counter() + seconds, first
    while True:
        with tempfile.TemporaryDirectory() as folder:
            start = time.perf_counter()
            routes = run(steps, Path(folder))
            took = time.perf_counter() - start
        left = end - time.perf_counter()
        if left < took:
            return routes
        steps = int(steps * min(GROWTH, left / took))


# --- what they write ----------------------------------------------------------------


def sol_routes(text: str) -> Routes:
    """Customers behind "Route #1:"; CVRPLIB's own format."""
    lines = [line.partition(":")[2] for line in text.splitlines() if "Route" in line]
    return [[int(word) for word in line.split()] for line in lines]


def savant_routes(text: str) -> Routes:
    """One line per route after "inst ..."; the depot is not written."""
    lines = [line for line in text.splitlines() if line and line[0] != "#"]
    return [[int(word) for word in line.split()] for line in lines[1:]]


def lkh_routes(text: str) -> Routes:
    """Lines "1 5 8 1 (#2)  Cost: 9": nodes, of which 1 is the depot."""
    lines = [line.partition("(")[0] for line in text.splitlines() if "(#" in line]
    tours = [[int(word) - 1 for word in line.split()] for line in lines]
    return [[node for node in tour if node] for tour in tours if any(tour)]


def call(words: list[str]) -> None:
    """Run a program; what it prints is not needed."""
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL)


PROGRAMS = {"savant": savant, "filo2": filo2, "lkh": lkh}


def main() -> None:
    """Solve one instance and write a .sol file."""
    if len(sys.argv) != 7 or sys.argv[1] not in PROGRAMS:
        raise SystemExit(
            "arena.py: savant|filo2|lkh PROGRAM INSTANCE SOLUTION SECONDS SEED"
        )
    name, program, instance, solution, seconds, seed = sys.argv[1:]
    routes = PROGRAMS[name](program, Path(instance), float(seconds), int(seed))
    lines = [
        f"Route #{number}: {' '.join(map(str, route))}"
        for number, route in enumerate((r for r in routes if r), start=1)
    ]
    Path(solution).write_text("\n".join([*lines, ""]))


if __name__ == "__main__":
    main()
