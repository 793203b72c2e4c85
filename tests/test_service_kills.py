"""What the service promises when things die or are too many."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import sqlite3
import subprocess
import time
from pathlib import Path

import pytest

pytest.importorskip("fastapi")

import clusterfirst
from clusterfirst.cli import main
from clusterfirst.problem.errors import InputError
from clusterfirst.service.settings import listening
from clusterfirst.service.store import FILE, MIGRATIONS, Store
from services import Service, ended, random_day, running


def wait_over(service: Service, plan: str, seconds: float = 40) -> dict[str, object]:
    end = time.monotonic() + seconds
    while True:
        found = service.client.get(f"/v1/plans/{plan}").json()
        if found["status"] not in ("queued", "running"):
            return found
        assert time.monotonic() < end, found["status"]
        time.sleep(0.05)


def wait_running(service: Service, plan: str) -> None:
    end = time.monotonic() + 40
    while service.client.get(f"/v1/plans/{plan}").json()["status"] != "running":
        assert time.monotonic() < end
        time.sleep(0.02)


def next_worker(service: Service, last: int) -> int:
    """The process id of the worker that came after one that was killed."""
    end = time.monotonic() + 40
    while (found := service.workers()) in ([], [last]):
        assert time.monotonic() < end
        time.sleep(0.02)
    (worker,) = found
    return worker


def test_what_cannot_be_a_database_is_a_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It was a traceback of the server, and a FIFO as --basemap was waited for."""
    (tmp_path / FILE).write_text("garbage")
    os.mkfifo(tmp_path / "pipe.pmtiles")
    start = ["serve", "--port", "0", "--data", str(tmp_path)]
    assert main(start) == 2
    assert re.fullmatch(r"clusterfirst: E731 --data: .*\n", capsys.readouterr().err)
    assert main([*start, "--basemap", str(tmp_path / "pipe.pmtiles")]) == 2
    assert "E104" in capsys.readouterr().err
    assert not (tmp_path / ".lock").exists()


def test_a_backup_is_whole_or_not_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A full disk left an empty file and E999."""
    store = Store(tmp_path / "data")
    connect = sqlite3.connect

    def small(*given: object, **more: object) -> sqlite3.Connection:
        found = connect(*given, **more)
        found.execute("PRAGMA max_page_count = 2")
        return found

    monkeypatch.setattr("clusterfirst.service.store.sqlite3.connect", small)
    with pytest.raises(InputError, match="E732"):
        store.backup(tmp_path / "copy.sqlite")
    monkeypatch.undo()
    assert [path.name for path in tmp_path.iterdir()] == ["data"]
    store.backup(tmp_path / "copy.sqlite")
    assert {path.name for path in tmp_path.iterdir()} == {"data", "copy.sqlite"}
    store.close()


def test_kills_lose_nothing(tmp_path: Path) -> None:
    """A dead worker's plan is tried once more; a dead service runs it again.

    Answered plans are there after a kill -9, the database is sound, and no worker
    outlives its service.
    """
    data = tmp_path / "data"
    service = Service(data).wait()
    body = {"instance": random_day(60), "options": {"time_limit": 0.2}}
    done = service.client.post(
        "/v1/plans", json=body, headers={"Prefer": "wait=20"}
    ).json()
    slow = {"instance": random_day(60), "options": {"time_limit": 2}}
    once = service.client.post("/v1/plans", json=slow).json()["id"]
    wait_running(service, once)
    os.kill(service.worker(), signal.SIGKILL)
    assert wait_over(service, once)["status"] == "done"
    open_one = service.client.post("/v1/plans", json=slow).json()["id"]
    wait_running(service, open_one)
    worker = service.worker()
    service.kill()
    assert ended(worker)
    with sqlite3.connect(data / FILE) as db:
        assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    with running(data) as again:
        assert again.client.get(f"/v1/plans/{done['id']}").json() == done
        assert wait_over(again, open_one)["status"] == "done"


def test_a_worker_that_dies_twice_is_reported(tmp_path: Path) -> None:
    """The plan fails with its sentence; the next one is planned."""
    with running(tmp_path / "data") as service:
        slow = {"instance": random_day(60), "options": {"time_limit": 20}}
        plan = service.client.post("/v1/plans", json=slow).json()["id"]
        killed = 0
        for _ in range(2):
            killed = next_worker(service, killed)
            wait_running(service, plan)
            os.kill(killed, signal.SIGKILL)
        failed = wait_over(service, plan)
        assert failed["status"] == "failed"
        assert failed["problems"][0]["code"] == "E509"  # type: ignore[index]
        body = {"instance": random_day(5), "options": {"time_limit": 0.1}}
        headers = {"Prefer": "wait=60"}
        good = service.client.post("/v1/plans", json=body, headers=headers).json()
        assert good["status"] == "done"


def test_a_model_that_is_gone_is_said_without_its_folder(tmp_path: Path) -> None:
    """What a worker cannot load fails the plan; no answer has a path of the service."""
    with running(tmp_path / "data") as service:
        table = {"Content-Type": "text/csv"}
        places = "id,lat,lon\ndepot,51.05,3.72\nnorth,51.07,3.72\nwest,51.05,3.70\n"
        city = service.client.post("/v1/cities", content=places, headers=table).json()
        model = tmp_path / "data" / "learned" / city["id"] / "model"
        model.parent.mkdir(parents=True)
        shutil.copytree(
            Path(clusterfirst.__file__).parent / "models" / "general", model
        )
        options = {"time_limit": 0.5, "model": f"city:{city['id']}"}
        body = {"instance": random_day(60), "options": options}
        good = service.client.post("/v1/plans", json=body).json()["id"]
        assert wait_over(service, good)["status"] == "done"
        seen = [service.client.get(f"/v1/plans/{good}").text]
        seen += [service.client.get(f"/v1/plans/{good}/export.json").text]
        slow = {"instance": random_day(60), "options": {"time_limit": 2}}
        busy = service.client.post("/v1/plans", json=slow).json()["id"]
        body["instance"] = random_day(61)
        plan = service.client.post("/v1/plans", json=body).json()["id"]
        (model / "manifest.json").write_text("{")
        wait_over(service, busy)
        failed = wait_over(service, plan)
        assert failed["status"] == "failed"
        seen += [json.dumps(failed)]
        with service.client.stream("GET", f"/v1/plans/{plan}/events") as events:
            seen += [events.read().decode()]
        for text in seen:
            assert str(tmp_path) not in text
            assert "learned/" not in text


def test_a_token_and_a_full_queue(tmp_path: Path) -> None:
    """401 without the token, 429 with Retry-After when the queue is full.

    Ctrl-C ends it with exit code 0, as SIGTERM does everywhere else (`Service.close`).
    """
    secret = tmp_path / "token"
    secret.write_text("0123456789abcdef0123\n")
    options = ("--token-file", str(secret), "--max-queue", "2")
    with running(tmp_path / "data", *options, end=signal.SIGINT) as service:
        answer = service.client.get("/v1/limits")
        assert (answer.status_code, answer.json()["code"]) == (401, "E507")
        assert service.client.get("/health").status_code == 200
        service.client.headers["Authorization"] = "Bearer 0123456789abcdef0123"
        assert service.client.get("/v1/limits").json()["queue"] == 2
        slow = {"instance": random_day(60), "options": {"time_limit": 20}}
        key = {"Idempotency-Key": "the first"}
        answers = [service.client.post("/v1/plans", json=slow, headers=key)]
        answers += [service.client.post("/v1/plans", json=slow) for _ in range(6)]
        again = service.client.post("/v1/plans", json=slow, headers=key)
        assert (again.status_code, again.json()["id"]) == (202, answers[0].json()["id"])
        other = {"Idempotency-Key": "another"}
        busy = service.client.post("/v1/plans", json=slow, headers=other)
        assert busy.status_code == 429
        refused = [a for a in answers if a.status_code == 429]
        assert len(refused) >= 3
        for answer in refused:
            assert answer.json()["code"] == "E505"
            assert int(answer.headers["Retry-After"]) >= 1
        for answer in answers:
            if answer.status_code == 202:
                service.client.delete(answer.headers["Location"])
    log = (tmp_path / "data.log").read_text()
    assert "0123456789abcdef" not in log


def test_other_addresses_need_a_token(capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing listens to other machines by accident."""
    assert main(["serve", "--host", "0.0.0.0"]) == 2
    assert "E507" in capsys.readouterr().err


def test_backup_by_one_command(tmp_path: Path) -> None:
    """A copy of the database opens and has the same city; nothing is replaced."""
    store = Store(tmp_path)
    city = store.add_city("Gent", "a", "{}", "id,x,y\na,0,0\n")
    copy = tmp_path / "copy" / FILE
    copy.parent.mkdir()
    command = ["serve", "--data", str(tmp_path), "--backup", str(copy)]
    assert main(command) == 0
    store.close()
    assert Store(copy.parent).city(city) is not None
    assert main(command) == 2


def test_a_backup_is_restored_as_the_docs_say(tmp_path: Path) -> None:
    """After a crash too, when what came later still lies beside the database."""
    guide = Path(__file__).parent.parent / "docs" / "service.md"
    said = guide.read_text().split("To restore", 1)[1]
    (block,) = re.findall(r"\n\n((?:    .+\n)+)", said)[:1]
    data = tmp_path / "plans"
    store = Store(data)
    known = store.add_city("Gent", "a", "{}", "id,x,y\na,0,0\n")
    store.backup(tmp_path / "plans-2026-11-18.sqlite")
    store.add_city("later", "a", "{}", "id,x,y\na,0,0\n")
    shutil.copytree(data, tmp_path / "crashed")
    store.close()
    shutil.rmtree(data)
    (tmp_path / "crashed").rename(data)
    assert (data / f"{FILE}-wal").stat().st_size
    subprocess.run(["sh", "-ec", block], cwd=tmp_path, check=True)
    assert Store(data).cities() == [(known, "Gent")]


def test_migrations_are_numbered(tmp_path: Path) -> None:
    """A new database has the newest number; one from the future is refused."""
    store = Store(tmp_path)
    store.close()
    with sqlite3.connect(tmp_path / FILE) as db:
        assert db.execute("PRAGMA user_version").fetchone() == (len(MIGRATIONS),)
        db.execute(f"PRAGMA user_version = {len(MIGRATIONS) + 1}")
    from clusterfirst.problem.errors import InputError

    with pytest.raises(InputError, match="E309"):
        Store(tmp_path)


def test_old_plans_are_forgotten(tmp_path: Path) -> None:
    """Finished ones with their instances; those without an answer stay."""
    from clusterfirst.service.store import PlanRow

    store = Store(tmp_path)
    for number, status in enumerate(("done", "queued")):
        row = PlanRow(str(number), 0.0, "", "solved", None, 1, str(number), {}, status)
        store.add_plan(row, "{}", (str(number), "body"))
    assert store.forget(30) == 1
    assert store.plan("0") is None
    assert store.made_with("0") is None
    assert [row.id for row in store.unfinished()] == ["1"]
    store.close()


def test_keys_of_an_older_database_still_count(tmp_path: Path) -> None:
    """The third migration keeps what the first one's table of keys held."""
    with sqlite3.connect(tmp_path / FILE) as db:
        for script in MIGRATIONS[:2]:
            db.executescript(script)
        db.execute("PRAGMA user_version = 2")
        db.execute("INSERT INTO instances VALUES ('h', '{}')")
        row = ("p", 0.0, None, "", "solved", None, 1, "h", "{}", "done", None)
        db.execute(f"INSERT INTO plans VALUES ({','.join('?' * 11)})", row)
        db.execute("INSERT INTO keys VALUES ('key', 'body', 'p')")
    store = Store(tmp_path)
    assert store.made_with("key") == ("body", "p")
    store.forget(30)
    assert store.made_with("key") is None


@pytest.mark.parametrize(
    ("options", "code"),
    [
        (["--max-seconds", "nan"], "E404"),
        (["--max-queue", "0"], "E404"),
        (["--keep-days", "-1"], "E404"),
        (["--host", "256.1.1.1", "--token-file", "TOKEN"], "E512"),
        (["--port", "TAKEN"], "E512"),
    ],
)
def test_what_cannot_be_served_is_said_before_anything_starts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], options: list[str], code: str
) -> None:
    """A limit that is none, an address of nobody, a port that is taken."""
    (tmp_path / "token").write_text("0123456789abcdef\n")
    with socket.create_server(("127.0.0.1", 0)) as other:
        words = {
            "TOKEN": str(tmp_path / "token"),
            "TAKEN": str(other.getsockname()[1]),
        }
        given = [words.get(option, option) for option in options]
        assert main(["serve", "--data", str(tmp_path / "data"), *given]) == 2
    assert code in capsys.readouterr().err


def test_answers_leave_at_once() -> None:
    """What is accepted does not wait for acknowledgements (40 ms of every answer)."""
    with (
        listening("127.0.0.1", 0) as listener,
        socket.create_connection(listener.getsockname()),
        listener.accept()[0] as accepted,
    ):
        assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
