"""Odd bodies, full disks and smaller limits, as the service meets them."""

from __future__ import annotations

import io
import sqlite3
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from zipfile import ZIP_DEFLATED as DEFLATED

import pytest

pytest.importorskip("fastapi")

from fastapi.testclient import TestClient

from clusterfirst.service import worker_pool
from clusterfirst.service.app import create_app
from clusterfirst.service.guard import MOST_DRAINED, Incoming
from clusterfirst.service.plans import Plans
from clusterfirst.service.settings import ServiceLimits, ServiceSettings
from clusterfirst.service.worker_pool import Live
from services import random_day

TABLE = {"Content-Type": "text/csv"}
TOWN = "id,lat,lon\ndepot,51.05,3.72\nnorth,51.07,3.72\nwest,51.05,3.7\n"


@pytest.fixture
def settings(tmp_path: Path) -> ServiceSettings:
    return ServiceSettings(tmp_path / "data", 0)


@pytest.fixture
def client(settings: ServiceSettings) -> Iterator[TestClient]:
    """A service without workers."""
    with TestClient(create_app(settings), raise_server_exceptions=False) as found:
        yield found


def plans_of(client: TestClient) -> Plans:
    return client.app.app.state.plans  # type: ignore[attr-defined]


def refused(answer: Any) -> tuple[int, str]:
    assert answer.headers["content-type"] == "application/problem+json"
    return answer.status_code, answer.json()["code"]


@pytest.mark.parametrize("text", ["id,lat,lon,demand\n", f"id,lat,lon\n{',' * 9999}\n"])
def test_a_table_without_rows_is_a_sentence(client: TestClient, text: str) -> None:
    """Nothing but a header: it was an exception, and an answer without a sentence."""
    answer = client.post("/v1/plans?capacity=5", content=text, headers=TABLE)
    assert refused(answer) == (422, "E118")


def test_a_workbook_that_unpacks_to_much_is_refused_at_once(client: TestClient) -> None:
    """290 kB with 300 MB of blanks inside kept everybody waiting for a minute."""
    openpyxl = pytest.importorskip("openpyxl")
    whole, packed = io.BytesIO(), io.BytesIO()
    openpyxl.Workbook().save(whole)
    with zipfile.ZipFile(whole) as book, zipfile.ZipFile(packed, "w", DEFLATED) as bomb:
        for part in book.infolist():
            content = book.read(part)
            if part.filename.endswith("sheet1.xml"):
                content = content.replace(b"</sheetData>", b" " * (42 << 20))
            bomb.writestr(part.filename, content)
    kind = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"
    answer = client.post(
        "/v1/plans?capacity=5",
        content=packed.getvalue(),
        headers={"Content-Type": kind},
    )
    assert refused(answer) == (413, "E104")


def test_a_bug_is_a_sentence_too(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever raises: problem+json with the security headers, and no traceback."""

    def broken(*_: object) -> None:
        raise ZeroDivisionError("/home/somebody")

    monkeypatch.setattr("clusterfirst.service.question_routes.read_wish", broken)
    answer = client.post("/v1/validate", json={})
    assert refused(answer) == (500, "E999")
    assert "somebody" not in answer.text
    assert answer.headers["x-content-type-options"] == "nosniff"


def test_problems_of_a_list_name_its_items(client: TestClient) -> None:
    """Orders in JSON have no lines; a line break in one does not make two of it."""
    orders = [{"id": "4", "demand": 1}, {"id": "zz", "demand": 1}, {"id": "4"}]
    body = {"city": "bundled", "orders": orders}
    said = client.post("/v1/validate", json=body).json()["problems"]
    assert {problem["where"] for problem in said} == {
        "orders[1].id",
        "orders[2].id",
        "orders[2].demand",
    }
    body["orders"] = [{"id": "4\n5,1", "demand": 1}]
    said = client.post("/v1/validate", json=body).json()["problems"]
    assert "orders[0].id" in {problem["where"] for problem in said}


def test_warnings_reach_those_who_asked(client: TestClient) -> None:
    """Exchanged columns and demands of 0 are said, without a name of our own file."""
    rows = "".join(f"a{i},3.{i},51.{i},0\n" for i in range(9))
    text = f"id,lat,lon,demand\nd,51,3,0\n{rows}"
    told = client.post("/v1/validate?capacity=5", content=text, headers=TABLE).json()
    assert [words.split()[0] for words in told["warnings"]] == ["W132", "W135"]
    assert "upload" not in str(told)
    made = client.post("/v1/cities?depot=d", content=text, headers=TABLE).json()
    assert [words.split()[0] for words in made["warnings"]] == ["W132"]


def test_a_model_that_nobody_learned_is_found_by_validate(client: TestClient) -> None:
    body = {"instance": random_day(3), "options": {"model": "city:abc"}}
    told = client.post("/v1/validate", json=body).json()
    assert [problem["code"] for problem in told["problems"]] == ["E403"]


def test_a_query_keeps_its_digits(client: TestClient) -> None:
    """The largest seed is a whole number that no float can hold."""
    text = "id,lat,lon,demand\nd,51,3,0\na,51.1,3.1,2\n"
    for seed, valid in (2**63 - 1, True), (2**63, False):
        where = f"/v1/validate?capacity=5&seed={seed}"
        told = client.post(where, content=text, headers=TABLE).json()
        assert told["valid"] == valid, told["problems"]


@pytest.mark.parametrize(
    ("query", "text", "code"),
    [
        ("date=2026-11-02", "id,demand\n", "E101"),  # later a lesson broke over it
        ("date=2026-11-02", "id,demand\nnorth,99\n", "E201"),
        ("date=2026-13-45", "id,demand\nnorth,1\n", "E412"),
        ("date=2026-11-02", "date,id,demand\n2026-11-03,north,1\n", "E404"),
        ("date=monday", "date,id,demand\n2026-11-03,north,1\n", "E404"),
        ("date=2026-11-02&x=1", "id,demand\nnorth,1\n", "E307"),
        ("", "id,demand\nnorth,1\n", "E404"),
        ("", "date,id,demand\n2026-11-03,north,1\n20261103,west,1\n", "E412"),
        ("", "date,id,demand\n2026-11-03,north,1\nsoon,west,1\n", "E412"),
    ],
)
def test_days_that_teach_nothing_are_refused(
    client: TestClient, query: str, text: str, code: str
) -> None:
    """What `city add-days` refuses is refused here, and nothing of it is kept."""
    city = client.post("/v1/cities?capacity=9", content=TOWN, headers=TABLE).json()
    where = f"/v1/cities/{city['id']}/days?{query}"
    assert refused(client.post(where, content=text, headers=TABLE))[1] == code
    assert client.get(f"/v1/cities/{city['id']}").json()["days"] == 0


def test_a_table_of_many_days(client: TestClient) -> None:
    """Days by the column `date`, all of them or none."""
    city = client.post("/v1/cities?capacity=9", content=TOWN, headers=TABLE).json()
    where = f"/v1/cities/{city['id']}/days"
    two = "date,id,demand\n2026-11-03,north,1\n2026-11-04,north,2\n2026-11-04,west,1\n"
    made = client.post(where, content=two, headers=TABLE).json()
    assert (made["dates"], made["orders"]) == (["2026-11-03", "2026-11-04"], 3)
    one_known = "date,id,demand\n2026-11-05,north,1\n2026-11-04,west,1\n"
    answer = client.post(where, content=one_known, headers=TABLE)
    assert refused(answer) == (409, "E511")
    assert client.get(f"/v1/cities/{city['id']}").json()["days"] == 2


@pytest.mark.parametrize("service", [-1, 2**32])
def test_vroom_refuses_impossible_seconds(client: TestClient, service: int) -> None:
    place = [3.72, 51.05]
    body = {
        "jobs": [{"id": 1, "location": place, "service": service}],
        "vehicles": [{"id": 7, "start": place, "end": place}],
    }
    answer = client.post("/v1/vroom", json=body)
    assert (answer.status_code, answer.json()["code"]) == (400, 2)


def test_monitors_may_ask_for_the_head_alone(client: TestClient) -> None:
    for where in "/", "/health", "/ready":
        answer = client.head(where)
        assert answer.status_code == client.get(where).status_code
        assert not answer.content


def test_smaller_limits_lose_nothing_that_was_answered(
    settings: ServiceSettings,
) -> None:
    """A restart with lower limits: old plans are there, waiting ones end in words."""
    with TestClient(create_app(settings)) as client:
        body = {"instance": random_day(20), "options": {"time_limit": 3}}
        done, waits = (
            client.post("/v1/plans", json=body).json()["id"] for _ in range(2)
        )
        answer = {"routes": [[f"c{i}" for i in range(1, 21)]], "cost": 1.0}
        plans_of(client).store.finish_plan(done, "done", answer)
    strict = ServiceSettings(settings.data, 0, limits=ServiceLimits(customers=10))
    with TestClient(create_app(strict)) as client:
        assert client.get(f"/v1/plans/{done}").json()["customers"] == 20
    hasty = ServiceSettings(settings.data, 0, limits=ServiceLimits(seconds=1))
    with TestClient(create_app(hasty)) as client:
        over = client.get(f"/v1/plans/{waits}").json()
        assert (over["status"], over["problems"][0]["code"]) == ("failed", "E513")


def test_a_full_disk_is_said_and_nothing_is_lost(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A request that cannot be written is refused; an answer waits for room."""
    plans = plans_of(client)
    body = {"instance": random_day(20)}
    plan = client.post("/v1/plans", json=body).json()["id"]
    database = plans.store._db  # noqa: SLF001 - no real disk is filled
    (pages,) = database.execute("PRAGMA page_count").fetchone()
    database.execute(f"PRAGMA max_page_count = {pages}")
    big = {"instance": random_day(2000)}
    assert refused(client.post("/v1/plans", json=big)) == (507, "E732")
    monkeypatch.setattr(worker_pool, "FULL_DISK", 0.01)
    saved, tries = plans.pool.save, []

    def full_at_first(live: Live, status: str) -> None:
        tries.append(time.monotonic())
        if len(tries) < 3:
            raise sqlite3.OperationalError("database or disk is full")
        saved(live, status)

    plans.pool.save = full_at_first
    live = plans.pool.live[plan]
    plans.pool._settle(live, "done", {"routes": [], "cost": 0.0})  # noqa: SLF001
    assert len(tries) == 3
    assert client.get(f"/v1/plans/{plan}").json()["status"] == "done"


@pytest.mark.parametrize("parts", [0, 3, 10**9])
@pytest.mark.anyio
async def test_a_refused_body_is_read_to_its_end(parts: int) -> None:
    """Otherwise its client is reset while it sends; one without end is let go."""
    taken = 0

    async def receive() -> dict[str, Any]:
        nonlocal taken
        taken += 1
        part = b" " * (1 << 20)
        return {"type": "http.request", "body": part, "more_body": taken < parts}

    headers = [(b"content-length", b"9")] if parts else []
    body = Incoming({"headers": headers}, receive)
    await body.drain()
    assert taken == min(parts, MOST_DRAINED >> 20)


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"
