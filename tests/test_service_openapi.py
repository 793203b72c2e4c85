"""Requests drawn from the service's own description: sentences, never a 500."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from importlib.util import find_spec
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis.errors import Unsatisfiable

from services import Service, running

PATIENT = settings(
    max_examples=10,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=list(HealthCheck),
)


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    options = ("--max-seconds", "1", "--max-queue", "20")
    with running(tmp_path_factory.mktemp("openapi") / "data", *options) as found:
        yield found


@pytest.mark.parametrize("mode", list(schemathesis.GenerationMode))
def test_no_request_breaks_the_service(service: Service, mode: Any) -> None:
    """Whatever is sent, right or wrong, every answer is a sentence and none a 500."""
    url = f"http://127.0.0.1:{service.port}/v1/openapi.json"
    operations = 0
    for found in schemathesis.openapi.from_url(url).get_all_operations():
        operation = found.ok()
        operations += 1

        @PATIENT
        @given(case=operation.as_strategy(generation_mode=mode))
        def try_it(case: Any) -> None:
            answer = case.call(timeout=30)
            assert answer.status_code < 500 or case.path == "/ready", answer.text
            if answer.status_code >= 400 and "/vroom" not in case.path:
                kind = answer.headers["content-type"][0]
                assert kind.startswith("application/problem+json"), answer.text
                assert answer.json()["problems"][0]["code"].startswith("E")

        with contextlib.suppress(Unsatisfiable):  # nothing in it can be wrong
            try_it()
    assert operations >= 20


def test_examples_of_the_description_are_accepted(service: Service) -> None:
    """Every example is answered with success; ids are those of a plan and a city."""
    send = service.client.request
    document = send("GET", "/v1/openapi.json").json()
    bodies = [
        (path, kind, media, body["example"])
        for path, operations in document["paths"].items()
        for kind, operation in operations.items()
        for media, body in operation.get("requestBody", {}).get("content", {}).items()
        if "example" in body
    ]
    examples = {(path, media): example for path, _, media, example in bodies}
    asked = examples["/v1/plans", "application/json"]
    headers = {"Prefer": "wait=60"}
    plan = send("POST", "/v1/plans", json=asked, headers=headers).json()
    table = {"Content-Type": "text/csv"}
    town = examples["/v1/cities", "text/csv"]
    city = send("POST", "/v1/cities", content=town, headers=table).json()
    words = {"/v1/cities/{city}/days": "?date=2026-11-18", "/v1/cities": ""}
    for path, kind, media, example in bodies:
        if path.endswith("/learn") and not (find_spec("torch") and find_spec("hygese")):
            continue
        where = path.format(plan=plan["id"], city=city["id"])
        if media == "text/csv":
            where += words.get(path, "?capacity=9")
            headers = {"Content-Type": media}
            answer = send(kind, where, content=example, headers=headers)
        else:
            answer = send(kind, where, json=example)
        assert answer.status_code < 300, (path, media, answer.text)
    send("DELETE", f"/v1/cities/{city['id']}/learn")
    named = {path.rsplit("/", 1)[1] for path, *_ in bodies if "{" in path}
    assert named == {"move", "replan", "quote", "days", "learn"}
