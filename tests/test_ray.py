"""A real Ray on this machine does what the pool does."""

from __future__ import annotations

import importlib.util
import os
import signal
from pathlib import Path

import pytest

from clusterfirst.learning.experts.engine import map_tasks
from clusterfirst.learning.labels.making import LabelOptions, label, merge
from clusterfirst.learning.labels.shards import shard_paths
from clusterfirst.learning.labels.sources import world

pytestmark = [
    pytest.mark.skipif(
        importlib.util.find_spec(module) is None,
        reason=f"the extra `{extra}` is not installed",
    )
    for module, extra in (("ray", "ray"), ("hygese", "labels"))
]


def square(x: int) -> int:
    """Return x * x, but die on 13."""
    if x == 13:
        os.kill(os.getpid(), signal.SIGSEGV)
    return x * x


def test_ray_gives_the_answers_of_the_pool(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Values, a worker that dies, and labels to the byte (one Ray for all three)."""
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parent))  # for `square`
    results = map_tasks(square, range(11, 15), workers=1, engine="ray")
    outcomes = [next(results)]
    shards = {}
    for engine in ("ray", "pool"):
        # Ray runs already, so the labels join it and leave it running.
        options = LabelOptions(10, 3, iterations=20, engine=engine)  # type: ignore[arg-type]
        label(world(seed=6), tmp_path / engine, options)
        merge([tmp_path / engine], tmp_path / f"{engine} sorted")
        (path,) = shard_paths(tmp_path / f"{engine} sorted")
        shards[engine] = path.read_bytes()
    assert shards["ray"] == shards["pool"]
    outcomes.extend(results)
    values = {outcome.task: outcome.value for outcome in outcomes}
    assert values == {11: 121, 12: 144, 13: None, 14: 196}
    assert [outcome.failure != "" for outcome in outcomes if outcome.task == 13] == [
        True
    ]
