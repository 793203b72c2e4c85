"""Lessons of cities: progress, stop, restart, and what is said when they fail."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

pytest.importorskip("fastapi")
pytest.importorskip("torch")
pytest.importorskip("hygese")

from fastapi.testclient import TestClient

import lesson_plan
from clusterfirst.files.lock import locked
from clusterfirst.service import lessons
from clusterfirst.service.app import create_app
from clusterfirst.service.settings import ServiceSettings

TABLE = "id,lat,lon\ndepot,51.05,3.72\nnorth,51.07,3.72\nsouth,51.02,3.71\n"


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ServiceSettings:
    """A service without workers, whose lessons are played."""
    monkeypatch.setattr(lessons, "MAIN", "lesson_plan")
    return ServiceSettings(tmp_path / "data", 0)


@pytest.fixture
def client(settings: ServiceSettings) -> Iterator[TestClient]:
    with TestClient(create_app(settings)) as found:
        yield found


def city(client: httpx.Client) -> str:
    headers = {"Content-Type": "text/csv"}
    return str(client.post("/v1/cities", content=TABLE, headers=headers).json()["id"])


def until(
    client: httpx.Client, where: str, status: str, stage: str = ""
) -> dict[str, str]:
    end = time.monotonic() + 60
    while True:
        found: dict[str, str] = client.get(where).json()
        if found["status"] == status and found["stage"].startswith(stage):
            return found
        assert time.monotonic() < end, found
        time.sleep(0.02)


def test_a_lesson_tells_how_it_goes_and_gives_a_model(client: TestClient) -> None:
    """Accepted at once, done later; the city's models name it."""
    home = city(client)
    where = f"/v1/cities/{home}/learn"
    assert client.get(where).status_code == 404
    asked = client.post(where, json={"hours": 1})
    assert (asked.status_code, asked.headers["location"]) == (202, where)
    key = {"Idempotency-Key": "the only lesson"}
    again = client.post(where, json={"hours": 1}, headers=key)
    assert again.status_code == 202
    found = until(client, where, "done")
    assert client.post(where, json={"hours": 1}, headers=key).json() == found
    assert found["stage"] == "1/4 pre-training 2 locations"
    assert "held back" in found["line"]
    models = client.get(f"/v1/cities/{home}/models").json()["models"]
    assert models[0] == found["model"] == f"city:{home}"
    assert "general" in models


def test_a_stopped_lesson_goes_on_when_asked_again(
    client: TestClient, settings: ServiceSettings
) -> None:
    """One at a time; the second city waits and can be stopped while it does."""
    first, second = city(client), city(client)
    where, other = (f"/v1/cities/{one}/learn" for one in (first, second))
    client.post(where, json={"hours": lesson_plan.LONG})
    until(client, where, "running", "1/4")
    assert client.post(where, json={"hours": lesson_plan.LONG}).status_code == 202
    assert client.post(where, json={"hours": 1}).json()["code"] == "E511"
    assert client.post(other, json={"hours": 1}).json()["status"] == "queued"
    assert client.delete(other).json()["status"] == "stopped"
    assert client.delete(where).json()["status"] == "stopped"
    client.post(where, json={"hours": 1})
    until(client, where, "done")
    assert (settings.data / "learned" / first / "times").read_text() == "xx"


def test_a_restart_goes_on_with_the_lesson(settings: ServiceSettings) -> None:
    """What ran when the service ended runs again at its next start."""
    with TestClient(create_app(settings)) as client:
        home = city(client)
        where = f"/v1/cities/{home}/learn"
        client.post(where, json={"hours": lesson_plan.LONG})
        until(client, where, "running", "1/4")
    folder = settings.data / "learned" / home
    with TestClient(create_app(settings)) as client:
        end = time.monotonic() + 20
        while (folder / "times").read_text() != "xx":
            assert time.monotonic() < end
            time.sleep(0.02)
        assert client.delete(where).json()["status"] == "stopped"


@pytest.mark.parametrize(
    ("hours", "word"), [(lesson_plan.CRASH, "unexpectedly"), (lesson_plan.FAIL, "many")]
)
def test_a_lesson_that_fails_says_why(
    client: TestClient, hours: float, word: str
) -> None:
    """A process that ends, and a problem of its own."""
    where = f"/v1/cities/{city(client)}/learn"
    client.post(where, json={"hours": hours})
    assert word in until(client, where, "failed")["line"]


def test_wrong_lessons_are_refused(client: TestClient) -> None:
    """Unknown cities, hours out of range, models that nobody has learned."""
    assert client.post("/v1/cities/none/learn", json={}).status_code == 404
    where = f"/v1/cities/{city(client)}/learn"
    for hours, code in ((0, "E404"), (-1, "E404"), (1000, "E513")):
        assert client.post(where, json={"hours": hours}).json()["code"] == code
    square = client.get("/v1/demo-data").json()
    for model in ("city:none", "city:../../x", "/etc"):
        body = {**square, "options": {"model": model}}
        assert client.post("/v1/plans", json=body).json()["code"] == "E403"


def test_no_failure_tells_where_the_data_are(
    client: TestClient, settings: ServiceSettings
) -> None:
    """A folder that is taken, or no folder at all: said without its path."""
    held, blocked = city(client), city(client)
    settings.learned.mkdir()
    (settings.learned / blocked).write_text("not a folder")
    with locked(settings.learned / held):
        for home, code in ((held, "E723"), (blocked, "E731")):
            where = f"/v1/cities/{home}/learn"
            assert client.post(where, json={"hours": 1}).status_code == 202
            until(client, where, "failed")
            text = client.get(where).text
            assert code in text
            assert str(settings.data.parent) not in text
            assert "learned/" not in text
