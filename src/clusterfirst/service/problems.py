"""Errors as `application/problem+json`: the codes and sentences of the command line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any

from starlette.responses import JSONResponse

from clusterfirst.problem.errors import (
    MAX_LINES,
    ClusterfirstError,
    InputError,
    Problem,
)

# Everything else that is wrong with the input is 422: read, but not acceptable.
_CODES = {
    400: "E101 E103 E301 E302 E303 E304 E305",
    401: "E507",
    403: "E504",
    404: "E503 E506",
    408: "E510",
    409: "E508 E511",
    413: "E104 E401 E501 E513",
    415: "E502",
    429: "E505",
    500: "E999",
    507: "E732",
}
STATUS = {code: status for status, codes in _CODES.items() for code in codes.split()}


class Refusal(InputError):
    """A request that is refused before its content matters; may carry headers."""

    def __init__(self, problem: Problem, headers: Mapping[str, str] | None = None):
        super().__init__(problem)
        self.headers = dict(headers or {})


def status_of(problems: Sequence[Problem]) -> int:
    """The HTTP status of the first problem."""
    return STATUS.get(problems[0].code, 422)


def problem_document(problems: Sequence[Problem], status: int) -> dict[str, Any]:
    """The body of an error: the first sentence, and all of them."""
    shown = [problem.as_dict() for problem in problems[: 5 * MAX_LINES]]
    return {
        "type": "about:blank",
        "title": HTTPStatus(status).phrase,
        "status": status,
        "detail": shown[0]["message"],
        "code": shown[0]["code"],
        "problems": shown,
        "more": len(problems) - len(shown),
    }


def problem_response(
    error: ClusterfirstError, status: int | None = None
) -> JSONResponse:
    """The answer to a request that went wrong; paths of files never leave."""
    status = status or status_of(error.problems)
    return JSONResponse(
        problem_document(error.problems, status),
        status,
        headers=getattr(error, "headers", None),
        media_type="application/problem+json",
    )
