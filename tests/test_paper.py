"""The paper's tables: printed numbers as printed, rows kept, honest cells."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from clusterfirst.cli import main
from clusterfirst.evidence.bench.sets import BenchSet, Case, city_set, route_numbers
from clusterfirst.evidence.paper import grids, method_runs, plans, variants
from clusterfirst.evidence.paper import mip_gaps as mip_module
from clusterfirst.evidence.paper import pictures as pictures_module
from clusterfirst.evidence.paper import runs as runs_module
from clusterfirst.evidence.paper.histograms import histogram
from clusterfirst.evidence.paper.instances import FULL, SMALL, Sets, scale_of
from clusterfirst.evidence.paper.method_runs import MethodRun, Recipe
from clusterfirst.evidence.paper.page import text, write_page
from clusterfirst.evidence.paper.pictures import (
    NEITHER,
    OTHER_K,
    SHORT,
    cause_of,
    pictures,
)
from clusterfirst.evidence.paper.printed import SIZES
from clusterfirst.evidence.paper.runs import Measured, Runs, Task
from clusterfirst.evidence.paper.variants import GENERAL, VARIANTS, Models
from clusterfirst.networks.model_folder import save_model
from clusterfirst.networks.neural import NeuralScorer
from clusterfirst.networks.seed_decoding import PackingRule, decode_seeds
from clusterfirst.problem.errors import InputError
from clusterfirst.problem.instance import Instance
from clusterfirst.problem.solution import Solution, judge
from clusterfirst.solving import neural
from clusterfirst.stages.assignment import highs
from clusterfirst.stages.assignment.mip import Claim, MipAnswer
from networks import (
    PSI,
    RELATIVE,
    small_city,
    small_day,
    small_model,
    small_network,
)
from networks import SMALL as XY

COUNT = 2
EXACT = Task("constant", 100, Recipe(model="city-psi", assign="exact"))


def small_set(kind: str, size: int) -> BenchSet:
    """Days of 20 customers, each with a route of its own as the reference."""
    days = city_set(small_city(), 20, COUNT, seed=size, capacity=50)
    alone = Solution([c] for c in range(1, 21))
    cases = tuple(
        Case(
            case.instance,
            judge(case.instance, alone).cost,
            route_numbers(case.instance, alone),
        )
        for case in days.cases
    )
    return BenchSet(f"{kind}-{size}", cases, "everybody alone")


class SmallSets(Sets):
    """The same sets at every size, none of them read or large."""

    def _opened(self, kind: str, size: int) -> BenchSet:
        return small_set(kind, size)


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Two untrained models: of the city, and for any instance."""
    folder = tmp_path_factory.mktemp("models")
    psi = small_model("small", PSI, {"passes": 1})
    save_model(folder / "psi", psi, "card")
    save_model(folder / "any", small_model("any", XY, {"passes": 2}), "card")
    return {"city-psi": folder / "psi", GENERAL: folder / "any"}


@pytest.fixture(autouse=True)
def nothing_shipped(monkeypatch: pytest.MonkeyPatch) -> None:
    """The weights that come with the package change; these tests do not."""
    monkeypatch.setattr(variants, "shipped", dict)


def new_runs(
    folder: Path, given: dict[str, Path] | None = None, *, full: bool = False
) -> tuple[Runs, list[str]]:
    """A runs over the small sets, and the lines it says."""
    said: list[str] = []
    seconds = dict.fromkeys(SIZES, 3.0)
    scale = replace(FULL if full else SMALL, seconds=seconds)
    sets = SmallSets(scale, None, said.append, said.append)
    return Runs(scale, sets, Models(given), folder / "out", said.append), said


# --- weights ------------------------------------------------------------------------


def test_rows_without_weights_wait_for_them_by_name(tmp_path: Path) -> None:
    """Nothing is run and nothing is made up."""
    runs, said = new_runs(tmp_path)
    page = grids.ablation(runs)
    assert len(page.records) == 24 * 4
    names = {
        record["status"].removeprefix("waits for weights: ") for record in page.records
    }
    assert names == {name for name in VARIANTS if "one-layer" not in name}
    assert not said
    assert all(record["printed_gap"] for record in page.records)


def test_weights_that_appear_are_picked_up(
    tmp_path: Path, folders: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A model of that name among the shipped ones fills its row."""
    shipped = {"city-psi": folders["city-psi"]}
    monkeypatch.setattr(variants, "shipped", lambda: shipped)
    runs, _ = new_runs(tmp_path)
    rows = [r for r in grids.main_a(runs).records if r["weights"] == "city-psi"]
    assert len(rows) == 4
    assert all(row["status"] == "run here" for row in rows)


@pytest.mark.parametrize("name", ["city-xy", "city-psi-one-layer", "no-such-row"])
def test_a_row_never_carries_another_kind_of_model(
    folders: dict[str, Path], name: str
) -> None:
    """Input and depth must be the row's own."""
    with pytest.raises(InputError, match="E403"):
        Models({name: folders["city-psi"]})


# --- runs ---------------------------------------------------------------------------


def test_every_decoding_and_both_fleets_give_judged_answers(
    tmp_path: Path, folders: dict[str, Path]
) -> None:
    """Gaps are of feasible routes, and two fleets are never worse than one."""
    runs, _ = new_runs(tmp_path, folders)
    for assign in ("exact", "sparse", "hard"):
        one = Task("constant", 100, Recipe(model="city-psi", assign=assign))
        two = replace(one, recipe=replace(one.recipe, fleet="best"))
        runs.run([one, two])
        first, second = runs.result(one), runs.result(two)
        assert isinstance(first, Measured)
        assert isinstance(second, Measured)
        assert len(first.gaps) == COUNT
        for place, gap in first.gaps.items():
            assert second.gaps[place] <= gap + 1e-9
        assert not first.unfinished


def test_decoding_is_the_papers(
    tmp_path: Path, folders: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Customers are scored at the decoded seeds only: `solve` moves them, this not."""
    moved = lambda *_: pytest.fail("the seeds were moved")  # noqa: E731
    monkeypatch.setattr(neural, "centres", moved)
    runs, _ = new_runs(tmp_path, folders)
    runs.run([EXACT])
    assert isinstance(runs.result(EXACT), Measured)


def test_nothing_of_ours_is_in_the_printed_decoding(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Seeds of Algorithm 1, latent distances to them all, HiGHS from nothing (C3)."""
    network, day = small_network(RELATIVE), small_day(60)
    save_model(tmp_path / "any", small_model("any", RELATIVE), "card")
    warm = []
    solve_binary = highs.solve_binary

    def spy(*args):  # type: ignore[no-untyped-def]  # a spy
        warm.append(args[3] if len(args) > 3 else None)
        return solve_binary(*args)

    monkeypatch.setattr(highs, "solve_binary", spy)
    monkeypatch.setattr(highs, "assign_fast", lambda *_: pytest.fail("fast answer"))
    weights = variants.Weights("any", str(tmp_path / "any"), "")
    found = method_runs.decode(day, Recipe(model="any", assign="exact"), weights, 30.0)
    assert found is not None
    assert warm
    assert all(point is None for point in warm)
    scores = found.state.details["scores"]
    plain = NeuralScorer(network, found.state.instance).encoded
    picked = decode_seeds(
        plain.logit[1:],
        plain.contrast[1:],
        day.demand_units[1:],
        PackingRule().limits(day.demand_units[1:], 50, day.min_vehicles),
        np.empty((60, 0), dtype=np.int64),
    )
    assert scores.seeds.tolist() == (picked[picked >= 0] + 1).tolist()
    every = network.score(plain, scores.seeds, dense=True)
    assert every.candidates.shape == (60, len(scores.seeds))
    assert scores.cost == pytest.approx(every.cost, abs=1e-6)
    assert found.state.rounds == 1


def test_without_an_assignment_there_is_no_answer(
    tmp_path: Path, folders: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Our repair answers for `solve`, never for the paper's decodings."""
    monkeypatch.setattr(highs, "solve_binary", lambda *_: MipAnswer(Claim.STOPPED))
    runs, _ = new_runs(tmp_path, folders)
    runs.run([EXACT])
    result = runs.result(EXACT)
    assert isinstance(result, Measured)
    assert not result.gaps
    assert {run.reason for _, run in result.pairs} == {"no feasible routes in time"}


def test_an_answer_the_judge_refuses_is_no_answer(
    tmp_path: Path, folders: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The cell says that nothing was solved, and the row why."""
    runs, _ = new_runs(tmp_path, folders)
    decode = method_runs.decode

    def lose_a_customer(*args: object) -> method_runs.Decoding:
        found = decode(*args)  # type: ignore[arg-type]  # passed through
        assert found is not None
        return replace(found, solution=Solution(found.solution.routes[1:]))

    monkeypatch.setattr(method_runs, "decode", lose_a_customer)
    runs.run([EXACT])
    result = runs.result(EXACT)
    assert isinstance(result, Measured)
    assert not result.gaps
    assert grids.ours(result) == "no answer"
    assert all("no visit" in run.reason for _, run in result.pairs)


def test_what_was_run_is_not_run_again(
    tmp_path: Path, folders: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tables share their runs, and a second call only reads."""
    runs, _ = new_runs(tmp_path, folders)
    runs.run([EXACT])
    first = runs.result(EXACT)
    monkeypatch.setattr(runs_module, "run_method", lambda *_: pytest.fail("run again"))
    again, said = new_runs(tmp_path, folders)
    again.run([EXACT])
    second = again.result(EXACT)
    assert isinstance(first, Measured)
    assert isinstance(second, Measured)
    assert first.gaps == second.gaps
    assert not said


def interrupting(after: int) -> Callable[..., MethodRun]:
    """A run that is Ctrl-C after so many real ones."""
    left = [after]

    def run_method(*args: object) -> MethodRun:
        left[0] -= 1
        if left[0] < 0:
            raise KeyboardInterrupt
        return method_runs.run_method(*args)  # type: ignore[arg-type]  # passed through

    return run_method


def test_ctrl_c_leaves_what_is_finished(
    tmp_path: Path, folders: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Finished cells are printed, the others say how far they are, and it goes on."""
    monkeypatch.setattr(runs_module, "run_method", interrupting(COUNT + 1))
    runs, _ = new_runs(tmp_path, folders)
    page = grids.main_a(runs)
    assert runs.interrupted
    status = [r["status"] for r in page.records if r["weights"] == "city-psi"]
    assert status == ["run here", f"not finished: 1 of {COUNT}", *["not run yet"] * 2]
    monkeypatch.setattr(runs_module, "run_method", method_runs.run_method)
    again, _ = new_runs(tmp_path, folders)
    status = [r["status"] for r in grids.main_a(again).records]
    assert status.count("run here") == 4


def test_full_says_its_hours_first_and_what_they_stand_on(
    tmp_path: Path, folders: dict[str, Path]
) -> None:
    """First by the limits, then measured on the first instances."""
    runs, said = new_runs(tmp_path, folders, full=True)
    runs.run([EXACT])
    told = [line for line in said if line.startswith("full:")]
    assert "stated: their time limits" in told[0]
    assert "measured on the first instance" in told[1]
    assert said[0] == told[0]


def test_full_is_as_large_as_printed() -> None:
    """10,000 and 128 instances, 100 s an assignment, 240 s of HGS per 100 customers."""
    assert FULL.counts == {100: 10_000, 200: 128, 500: 128, 1000: 128}
    assert all(0.4 * seconds >= 100 for seconds in FULL.seconds.values())
    assert FULL.hgs[1000] == pytest.approx(2400)
    assert scale_of("full", 5).counts == dict.fromkeys(SIZES, 5)


def test_standard_capacity_asks_for_references_of_its_own() -> None:
    """Another capacity is another problem; at N = 100 it is the same one."""

    class Days(Sets):
        def _opened(self, kind: str, size: int) -> BenchSet:
            if kind == "constant":
                return small_set(kind, size)
            return super()._opened(kind, size)

    sets = Days(SMALL, None, print, print)
    assert sets.get("standard", 100) is sets.get("constant", 100)
    changed = sets.get("standard", 500)
    assert not changed.references
    assert {case.instance.capacity for case in changed.cases} == {100}
    assert {(case.reference, case.labels) for case in changed.cases} == {(None, None)}


# --- figures ------------------------------------------------------------------------


def test_published_rows_are_marked_with_their_source(tmp_path: Path) -> None:
    """Every row of the paper is there; those we do not run say so."""
    runs, _ = new_runs(tmp_path)
    page = grids.main_b(runs)
    published = {r["method"] for r in page.records if r["status"] == grids.PUBLISHED}
    assert {"LKH-3", "POMO greedy", "BQ greedy", "LEHD greedy"} <= published
    assert {"TAM-LKH3", "GLOP-LKH3", "Neural Cap. Cluster (128)"} <= published
    assert all(record["source"] for record in page.records)
    assert sum("published, not run here" in note for note in page.notes) >= 3
    own = [r for r in page.records if r["method"] == "Sweep-LKH3"]
    assert own[0]["status"] == "run here"
    assert own[0]["instances_of"] == "public-100"


def test_precision_and_recall_are_counted_as_defined(
    tmp_path: Path, folders: dict[str, Path]
) -> None:
    """Recall falls with the threshold, and no more edges are right than kept."""
    runs, _ = new_runs(tmp_path, folders)
    page = plans.plan(runs)
    lines = [
        json.loads(x)
        for x in (runs.folder / "plans.jsonl").read_text().split("\n")[:-1]
    ]
    assert len(lines) == 2 * COUNT
    for line in lines:
        assert sorted(line["right"], reverse=True) == line["right"]
        assert all(r <= e for r, e in zip(line["right"], line["edges"], strict=True))
        assert max(line["right"]) <= line["customers"]
    assert all(0 <= record["recall"] <= 100 for record in page.records)
    assert page.pictures[0].exists()


def test_histogram_and_pictures_of_small_days(
    tmp_path: Path, folders: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Everybody alone is beaten by anyone, with fewer vehicles: the cause is K."""
    monkeypatch.setattr(pictures_module, "EACH", 1)
    runs, _ = new_runs(tmp_path, {"city-psi": folders["city-psi"]})
    *found, waiting = histogram(runs).records
    assert [record["beat"] for record in found] == [COUNT, COUNT]
    assert [record["same_k"] for record in found] == [0, 0]
    assert waiting["status"] == "waits for weights: general"
    page = pictures(runs)
    assert [r.get("cause") for r in page.records] == ["best", OTHER_K] * 2 + [None]
    assert all(path.exists() for path in page.pictures)
    assert len(page.pictures) == 4


def test_looser_mip_gaps_are_rows_of_their_own(
    tmp_path: Path, folders: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each limit is run and says which gap was proven."""
    monkeypatch.setattr(mip_module, "SIZES", {"small": (200,)})
    monkeypatch.setattr(mip_module, "LIMITS", {"small": (0.16, 0.001)})
    runs, _ = new_runs(tmp_path, folders)
    page = mip_module.mip_gap(runs)
    run = [r for r in page.records if r["status"] == "run here"]
    assert {r["mip_gap_limit"] for r in run} == {0.16, 0.001}
    for record in run:
        reached = record["mip_gap_reached"]
        assert reached is None or reached <= record["mip_gap_limit"] + 1e-4
    waiting = [row for row in page.sections[0].rows if "waits" in row[3]]
    assert len(waiting) == 3


def test_causes_are_told_apart() -> None:
    """Another K first, then a short route near the depot, else neither."""
    ring = [(np.cos(a), np.sin(a)) for a in np.linspace(0, 6, 8)]
    day = Instance([0] + [1] * 9, 4, coords=np.array([(0, 0), *ring, (0.1, 0)]))
    near = np.array([0, 0, 0, 0, 1, 1, 1, 1, 2])
    assert cause_of(Case(day, 1.0, near), vehicles=4) == OTHER_K
    assert cause_of(Case(day, 1.0, near), vehicles=3) == SHORT
    mixed = np.array([0, 0, 0, 1, 1, 1, 2, 2, 2])
    assert cause_of(Case(day, 1.0, mixed), vehicles=3) == NEITHER
    assert cause_of(Case(day, 1.0), vehicles=3) == NEITHER


# --- files and the command ----------------------------------------------------------


def test_files_hold_what_the_table_shows(tmp_path: Path) -> None:
    """CSV and JSON have a record per cell; the text says once what a row waits for."""
    runs, _ = new_runs(tmp_path)
    page = grids.main_a(runs)
    paths = write_page(tmp_path / "files", page)
    document = json.loads(paths[2].read_text())
    rows = list(csv.DictReader(paths[1].open()))
    assert len(rows) == len(document["records"]) == 16
    assert paths[0].read_text().count("waits for weights: city-psi\n") == 1
    assert "E 3.03" in text(page)


def test_the_command_prints_rows_that_wait(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`--json` is one document, and the files are in --out."""
    folder = tmp_path / "out"
    assert main(["paper", "ablation", "--json", "--out", str(folder)]) == 0
    [document] = json.loads(capsys.readouterr().out)["results"]
    assert document["table"] == "ablation"
    assert len(document["records"]) == 96
    assert (folder / "ablation.csv").exists()


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["no-such-table"], "E404"),
        (["main-a", "--scale", "huge"], "E404"),
        (["main-a", "--instances", "0"], "E404"),
        (["main-a", "--model", "city-psi"], "E400"),
        (["main-a", "--model", "city-psi=nowhere"], "E403"),
        ([], "E400"),
    ],
)
def test_wrong_words_get_a_sentence(
    words: list[str],
    code: str,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One line, exit code 2, and nothing is written."""
    monkeypatch.chdir(tmp_path)
    assert main(["paper", *words]) == 2
    assert code in capsys.readouterr().err
    assert not list(tmp_path.iterdir())
