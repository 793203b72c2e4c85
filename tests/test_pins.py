"""constraints.txt pins what pyproject.toml asks for, within its bounds."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def plain(name: str) -> str:
    """A distribution's name as indexes compare it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def asked_for() -> list[str]:
    """Everything pyproject.toml names: core, extras, development."""
    extras = PROJECT["project"]["optional-dependencies"].values()
    groups = PROJECT["dependency-groups"].values()
    lists = [PROJECT["project"]["dependencies"], *extras, *groups]
    return sorted({line for some in lists for line in some})


def pins() -> dict[str, str]:
    """Version of each pinned distribution."""
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pairs = [line.split("==") for line in lines if not line.startswith("#")]
    return {plain(name): version for name, version in pairs}


@pytest.mark.parametrize("line", asked_for())
def test_every_dependency_is_pinned_within_its_bounds(line: str) -> None:
    """A dependency without a pin, or with one outside its bounds, was not tested."""
    wanted = Requirement(line)
    version = pins()[plain(wanted.name)]
    assert wanted.specifier.contains(version)
    assert "+" not in version


def test_every_installation_goes_by_them() -> None:
    """All of the Makefile's own, the refresh of the pins apart."""
    text = (ROOT / "Makefile").read_text(encoding="utf-8")
    lines = [line for line in text.splitlines() if "pip install" in line]
    others = [line for line in lines if "pip>=25.1" not in line]
    others = [line for line in others if "newest" not in line]
    assert others == [line for line in lines if line.startswith("INSTALL := ")]
    assert "--constraint constraints.txt" in others[0]
    assert text.count("\t$(INSTALL)") == 3
