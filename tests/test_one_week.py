"""The example of one week: from raw spreadsheets to the sheets that drivers take."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parent.parent / "examples"


def test_a_week_from_spreadsheets_to_driver_sheets(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every day is planned, judged and written; most customers keep their driver."""
    spec = importlib.util.spec_from_file_location("one_week", EXAMPLES / "one_week.py")
    assert spec is not None
    assert spec.loader is not None
    week = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(week)
    week.plan_week(tmp_path, "--iterations", "300")
    said = capsys.readouterr()
    assert said.out.count("feasible: cost") == 5
    kept = re.findall(r"(\d+) of (\d+) changed vehicle, \d+ because of new", said.err)
    assert len(kept) == 4
    assert all(int(moved) <= 0.3 * int(both) for moved, both in kept)
    for file in week.DAYS:
        name = file.partition(".")[0]
        sheets = (tmp_path / f"{name}.sheets.html").read_text(encoding="utf-8")
        assert "van" in sheets
        assert "+32 9" in sheets  # columns of the user's, carried through by id
        assert "07:30" in sheets
        page = (tmp_path / f"{name}.html").read_text(encoding="utf-8")
        assert len(page) < 2_000_000
        assert (tmp_path / f"{name}.gpx").exists()
    assert "ring twice" in sheets
