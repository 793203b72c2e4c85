"""A Ray cluster of two nodes does what this machine does."""

from __future__ import annotations

import importlib.util
import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from clusterfirst.cities.day_law import fit
from clusterfirst.cities.forecast import ForecastSettings, forecast
from clusterfirst.cities.history import History, PastDay
from clusterfirst.files import write_instance
from clusterfirst.learning.labels.making import LabelOptions, label, merge
from clusterfirst.learning.labels.shards import shard_paths
from clusterfirst.learning.labels.sources import world
from clusterfirst.problem.errors import InputError
from clusterfirst.problem.sampling import sample_city, sample_uniform
from clusterfirst.solving.cluster import map_ray, map_tasks
from clusterfirst.solving.many import solve_many
from clusterfirst.solving.solver import Result, SolveOptions
from commands import Capture, problem_of, run
from services import Service, random_day

for module, extra in (("ray", "ray"), ("hygese", "labels"), ("fastapi", "serve")):
    if importlib.util.find_spec(module) is None:
        pytest.skip(f"the extra `{extra}` is not installed", allow_module_level=True)

HERE = Path(__file__).parent
COUNTED = SolveOptions(iterations=20, threads=1)
DAYS = [sample_uniform(30, seed=4, index=i) for i in range(4)]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """Two nodes of one core each; this process is joined to them."""
    import ray
    from ray.cluster_utils import Cluster

    path = os.pathsep.join([str(HERE.parent / "src"), str(HERE)])
    before = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = path  # what the nodes import, `square` among it
    node = {"num_cpus": 1, "object_store_memory": 80 * 2**20}
    quick = {"worker_niceness": 0}  # 15 by default: for ever on a busy machine
    head = {**node, "include_dashboard": False, "_system_config": quick}
    found = Cluster(initialize_head=True, head_node_args=head)
    found.add_node(**node)
    os.environ["RAY_ADDRESS"] = found.address
    ray.init(log_to_driver=False, logging_level="ERROR")
    yield found
    ray.shutdown()
    found.shutdown()
    del os.environ["RAY_ADDRESS"]
    del os.environ["PYTHONPATH"]
    if before is not None:
        os.environ["PYTHONPATH"] = before


def square(x: int) -> int:
    """Return x * x, but die on 13."""
    if x == 13:
        os.kill(os.getpid(), signal.SIGSEGV)
    return x * x


def die_once(task: tuple[int, Path]) -> int:
    """Return the number; the worker that takes it first dies."""
    number, folder = task
    try:
        (folder / str(number)).touch(exist_ok=False)
    except FileExistsError:
        return number
    os.kill(os.getpid(), signal.SIGKILL)
    return -1


def test_values_are_those_of_the_pool(cluster: Any, tmp_path: Path) -> None:
    """Workers that die are replaced and their tasks tried once more."""
    outcomes = map_tasks(square, range(11, 15), workers=2, engine="ray")
    found = {outcome.task: outcome for outcome in outcomes}
    assert {task: one.value for task, one in found.items()} == {
        11: 121, 12: 144, 13: None, 14: 196,
    }  # fmt: skip
    assert found[13].failure
    once = map_ray(die_once, [(i, tmp_path) for i in range(3)])
    assert sorted(outcome.value or 0 for outcome in once) == [0, 1, 2]


def test_labels_are_those_of_the_pool(cluster: Any, tmp_path: Path) -> None:
    """To the byte."""
    shards = {}
    for engine in ("ray", "pool"):
        options = LabelOptions(10, 3, iterations=20, engine=engine)  # type: ignore[arg-type]
        label(world(seed=6), tmp_path / engine, options)
        merge([tmp_path / engine], tmp_path / f"{engine} sorted")
        (path,) = shard_paths(tmp_path / f"{engine} sorted")
        shards[engine] = path.read_bytes()
    assert shards["ray"] == shards["pool"]


def test_answers_are_those_of_this_machine(cluster: Any) -> None:
    """By iterations, in the order of the instances, with errors in their places."""
    heavy = DAYS[0].replace(capacity=0.5)
    given = [*DAYS[:2], heavy, *DAYS[2:]]
    here = list(solve_many(given, COUNTED))
    there = list(solve_many(given, COUNTED, "ray"))
    for day, ours, theirs in zip(given, here, there, strict=True):
        if isinstance(ours, Result):
            assert isinstance(theirs, Result)
            assert theirs.instance is day
            assert theirs.solution == ours.solution
        else:
            assert str(theirs) == str(ours)
    with pytest.raises(InputError, match="largest node"):
        list(solve_many(DAYS, SolveOptions(iterations=1, threads=64), "ray"))


def test_a_lost_node_takes_no_answer_with_it(cluster: Any) -> None:
    """What ran there is run on the other one."""
    extra = cluster.add_node(num_cpus=2, object_store_memory=80 * 2**20)
    days = [sample_uniform(30, seed=5, index=i) for i in range(12)]
    answers = solve_many(days, SolveOptions(time_limit=0.3, threads=1), "ray")
    found = [next(answers)]
    losing = threading.Thread(target=cluster.remove_node, args=(extra, False))
    losing.start()
    found.extend(answers)
    losing.join()
    assert all(isinstance(answer, Result) for answer in found)
    assert len(found) == len(days)


def test_a_folder_is_solved_once(cluster: Any, tmp_path: Path, capsys: Capture) -> None:
    """Files as here; --resume solves what is missing or wrong and keeps the rest."""
    days = tmp_path / "days"
    days.mkdir()
    for index, day in enumerate(DAYS):
        write_instance(days / f"d{index}.json", day.replace(name=f"d{index}"))
    same = ("--iterations", "20", "--threads", "1")
    here, there = tmp_path / "here", tmp_path / "there"
    assert run("solve", days, *same, "--out", here) == 0
    assert run("solve", days, *same, "--out", there, "--engine", "ray") == 0
    texts = {path.name: path.read_bytes() for path in here.iterdir()}
    assert {path.name: path.read_bytes() for path in there.iterdir()} == texts
    (there / "d1.sol").unlink()
    (there / "d2.sol").write_text("Route #1: 1 2\nCost 1\n")
    capsys.readouterr()
    for engine in ("ray", "pool"):
        again = ("--out", there, "--engine", engine, "--resume")
        assert run("solve", days, *same, *again) == 0
        assert {path.name: path.read_bytes() for path in there.iterdir()} == texts
        kept = capsys.readouterr().err.count("kept")
        assert kept == (2 if engine == "ray" else 4)
    assert run("solve", days, "--engine", "ray", "--json-lines") == 2
    assert "--json-lines" in problem_of(capsys)


def test_a_forecast_has_the_same_numbers(cluster: Any) -> None:
    """Days are drawn and planned by their number, wherever that is."""
    city = sample_city(40, seed=6, name="toy").replace(capacity=20)
    rng = np.random.default_rng(0)
    days = tuple(
        PastDay(rng.choice(40, 15, replace=False) + 1, rng.integers(1, 6, 15) / 1.0)
        for _ in range(6)
    )
    law = fit(History(city, days))
    here = forecast(law, ForecastSettings(10, long_days=2))
    there = forecast(law, ForecastSettings(10, long_days=2, engine="ray"))
    assert np.array_equal(here.table, there.table)
    assert np.array_equal(here.excess, there.excess)


def test_the_service_plans_on_the_cluster(cluster: Any, tmp_path: Path) -> None:
    """The same routes by iterations; stopping and killing reach the node."""
    service = Service(tmp_path / "data", "--engine", "ray").wait()
    try:
        body = {"instance": random_day(30), "options": {"iterations": 20}}
        wait = {"Prefer": "wait=50"}
        first = service.client.post("/v1/plans", json=body, headers=wait).json()
        assert first["status"] == "done", first
        long = {"instance": random_day(60), "options": {"time_limit": 50}}
        asked = service.client.post("/v1/plans", json=long).json()
        where = f"/v1/plans/{asked['id']}"
        while not service.client.get(where).json().get("routes"):
            pass
        best = service.client.delete(where).json()
        assert best["status"] == "stopped"
        assert best["routes"]
    finally:
        service.close()
    local = Service(tmp_path / "local").wait()
    try:
        second = local.client.post("/v1/plans", json=body, headers=wait).json()
    finally:
        local.close()
    assert second["routes"] == first["routes"]
