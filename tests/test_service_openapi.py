"""Requests drawn from the service's own description: sentences, never a 500."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
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
    """Every example that needs no plan of its own is answered with success."""
    document = service.client.get("/v1/openapi.json").json()
    tried = 0
    for path, operations in document["paths"].items():
        for kind, operation in operations.items():
            content = operation.get("requestBody", {}).get("content", {})
            for media, body in content.items():
                if "{" in path or "example" not in body:
                    continue
                example, send = body["example"], service.client.request
                words = "?capacity=9" if media == "text/csv" else ""
                headers = {"Content-Type": media}
                if isinstance(example, str):
                    answer = send(kind, path + words, content=example, headers=headers)
                else:
                    answer = send(kind, path, json=example)
                assert answer.status_code < 300, (path, media, answer.text)
                tried += 1
    assert tried >= 6
