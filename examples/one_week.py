"""One week in Ghent, from tables to driver sheets: python examples/one_week.py OUT

Five days of orders (workbooks, and CSV with semicolons and decimal commas), four
vehicles with names, stops and hours. Each day keeps the day before: drivers know their
customers. For each day OUT gets the plan, a sheet per driver and a map that marks who
changed vehicle.
"""

import sys
from pathlib import Path

from clusterfirst.cli import main

HERE = Path(__file__).parent / "ghent_week"
DAYS = ("monday.xlsx", "tuesday.csv", "wednesday.xlsx", "thursday.csv", "friday.xlsx")


def plan_week(out: Path, *effort: str) -> None:
    """Plan every day into a folder; `effort` are options of `solve`."""
    out.mkdir(parents=True, exist_ok=True)
    city = str(out / "ghent")
    places = str(HERE / "locations.csv")
    _run("city", "init", places, "--depot", "depot", "--out", city)
    day_options = ["--city", city, "--vehicles", str(HERE / "vehicles.csv")]
    day_options += ["--speed", "22"]
    before: Path | None = None
    for file in DAYS:
        name = file.partition(".")[0]
        orders, plan = str(HERE / file), out / f"{name}-plan.xlsx"
        keep = [] if before is None else ["--keep", str(before)]
        _run("solve", orders, *day_options, *keep, *effort, "--out", str(plan))
        _run("check", orders, str(plan), *day_options)
        compare = [] if before is None else ["--compare", str(before)]
        targets = [f"{name}.sheets.html", f"{name}.html", f"{name}.gpx"]
        outs = [word for target in targets for word in ("--out", str(out / target))]
        more = [*outs, *compare, "--start", "7:30"]
        _run("export", orders, str(plan), *day_options, *more)
        before = plan


def _run(*words: str) -> None:
    if main(list(words)):
        sys.exit(f"failed: clusterfirst {' '.join(words)}")


if __name__ == "__main__":
    plan_week(Path(sys.argv[1] if len(sys.argv) > 1 else "week"))
