"""`/v1/cities/{id}/learn`: models of cities, learned one after the other.

A lesson is written down before it is answered and lives in a folder of its own, so that
after a restart or a kill it goes on from where it was.
"""

from __future__ import annotations

import importlib.util
import signal
import threading
import time
from typing import Any

from fastapi import APIRouter, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import JSONResponse

from clusterfirst.files.atomic import make_folder
from clusterfirst.files.strict_json import Checker
from clusterfirst.networks.model_folder import shipped
from clusterfirst.problem.errors import InputError, Problem
from clusterfirst.service import schemas
from clusterfirst.service.choices import LEARNED
from clusterfirst.service.cities import finder
from clusterfirst.service.inputs import document_of
from clusterfirst.service.likely_days import history_of
from clusterfirst.service.plans import Plans
from clusterfirst.service.problems import Refusal
from clusterfirst.service.requests import key_of, plans_of, read_body
from clusterfirst.service.settings import ServiceSettings
from clusterfirst.service.store import Lesson, Store
from clusterfirst.solving.child import Child

router = APIRouter(prefix="/v1/cities", tags=["cities"])
MAIN = "clusterfirst.service.lesson"
NEEDED = {"torch": "train", "hygese": "labels"}  # packages, and their extras
STOPPING = 20.0  # seconds in which a lesson puts its tools away
SAVE_EVERY = 2.0  # seconds between two lines on disk


class Lessons:
    """One thread that carries the lessons of the store to a process of their own."""

    def __init__(self, store: Store, settings: ServiceSettings) -> None:
        self.store, self.settings = store, settings
        self._news = threading.Condition()
        self._closing = False
        self._stopping = ""  # the city whose lesson shall end
        self._child: Child | None = None
        self._thread = threading.Thread(target=self._work, name="lessons", daemon=True)
        self._thread.start()

    def ask(self, city: str, hours: float) -> Lesson:
        """Begin or go on; more hours than before are another round."""
        with self._news:
            known = self.store.lesson(city)
            if known is not None and known.runs:
                if known.hours != hours:
                    rule = f"it learns for {known.hours:g} hours already; stop it first"
                    raise Refusal(Problem("E511", "hours", f"{hours:g}", rule))
                return known
            found = self.store.set_lesson(Lesson(city, hours, "queued", time.time()))
            self._news.notify()
        return found

    def stop(self, city: str) -> None:
        """End a lesson; what it has learned stays for the next one."""
        with self._news:
            known = self.store.lesson(city)
            if known is None or not known.runs:
                return
            if known.status == "queued":
                self._end(known, "stopped")
                return
            self._stopping = city
            if self._child is not None:
                self._child.signal(signal.SIGTERM)
        end = time.monotonic() + STOPPING
        while time.monotonic() < end:
            known = self.store.lesson(city)
            if known is None or not known.runs:
                return
            time.sleep(0.05)
        if self._child is not None:
            self._child.signal(signal.SIGKILL)

    def close(self) -> None:
        """End the process; its lesson goes on at the next start."""
        with self._news:
            self._closing = True
            self._news.notify()
        if self._child is not None:
            self._child.signal(signal.SIGKILL)
        self._thread.join(5.0)

    # --- in the thread ------------------------------------------------------------

    def _work(self) -> None:
        while not self._closing:
            lesson = self.store.next_lesson()
            if lesson is None:
                with self._news:
                    self._news.wait(1.0)
                continue
            try:
                self._run(lesson)
            except InputError as error:  # of its city, or of its folder
                self._end(lesson, "failed", error.problems[0])

    def _run(self, lesson: Lesson) -> None:
        history = history_of(self.store, lesson.city)
        lesson = self.store.set_lesson(lesson.on("running", stage="starting", line=""))
        out = self.settings.learned / lesson.city
        make_folder(out)
        self._child = child = Child(MAIN)
        saved = 0.0
        try:
            child.connection.send((history, lesson.hours, out))
            while True:
                kind, value = child.connection.recv()
                if kind not in ("stage", "line"):
                    break
                lesson = lesson.on("running", **{kind: value})
                if kind == "stage" or time.monotonic() - saved > SAVE_EVERY:
                    self.store.set_lesson(lesson)
                    saved = time.monotonic()
        except (EOFError, OSError):
            kind, value = "died", None
        finally:
            self._child = None
            child.close()
        if kind == "died" and self._closing:
            return  # it runs, by the store, and goes on at the next start
        if kind == "stopped" or lesson.city == self._stopping:
            self._end(lesson, "stopped")
        elif kind == "done":
            self.store.set_lesson(lesson.on("done", line=value["words"]))
        else:
            rule = "the process that learned ended unexpectedly; ask again to go on"
            problem = Problem("E509", "lesson", rule=rule)
            self._end(lesson, "failed", value[0] if value else problem)
        self._stopping = ""

    def _end(self, lesson: Lesson, status: str, problem: Problem | None = None) -> None:
        line = lesson.line
        if problem is not None:
            line = str(self.settings.hidden(problem))
        self.store.set_lesson(lesson.on(status, line=line))


def lessons_of(request: Request) -> Lessons:
    """The lessons that the application keeps."""
    found: Lessons = request.app.state.lessons
    return found


def _shown(plans: Plans, city: str) -> dict[str, Any]:
    lesson = plans.store.lesson(city)
    if lesson is None:
        raise Refusal(Problem("E506", "lesson", rule="this city has none"))
    model = f"{LEARNED}{city}" if plans.learned_model(city) is not None else None
    return {**lesson.as_dict(), "model": model}


@router.post(
    "/{city}/learn",
    responses=schemas.answers(202),
    openapi_extra=schemas.body("learn"),
    status_code=202,
)
async def learn(city: str, request: Request) -> JSONResponse:
    """Learn the model of a city in the background, for so many hours.

    Asked again after a stop it goes on; with more hours it learns on.
    """
    plans, lessons = plans_of(request), lessons_of(request)
    body = await read_body(request)
    key = key_of(request, body)

    def begin() -> dict[str, Any]:
        document = document_of(body, {"hours"})
        check = Checker()
        hours = check.number(document.get("hours", 3.0), "hours")
        if hours <= 0:
            check.complain("E404", "hours", f"{hours:g}", "must be above 0")
        if hours > plans.limits.learn_hours:
            rule = f"at most {plans.limits.learn_hours:g} here"
            check.complain("E513", "hours", f"{hours:g}", rule)
        check.stop_if_wrong()
        finder(plans.store)(city)
        for package, extra in NEEDED.items():
            if importlib.util.find_spec(package) is None:
                rule = f"pip install 'clusterfirst[{extra}]' on the service's machine"
                raise InputError(Problem("E422", "learn", package, rule))

        def ask() -> None:
            lessons.ask(city, hours)
            plans.store.use_key(key, city)

        plans.once(key, ask)
        return _shown(plans, city)

    document = await run_in_threadpool(begin)
    return JSONResponse(document, 202, {"Location": f"/v1/cities/{city}/learn"})


@router.get("/{city}/learn", responses=schemas.answers(200))
async def progress(city: str, request: Request) -> dict[str, Any]:
    """Where the lesson of a city stands."""
    return await run_in_threadpool(_shown, plans_of(request), city)


@router.delete("/{city}/learn", responses=schemas.answers(200))
async def stop(city: str, request: Request) -> dict[str, Any]:
    """Stop a lesson; what was learned stays, and asking again goes on."""
    plans, lessons = plans_of(request), lessons_of(request)

    def end() -> dict[str, Any]:
        _shown(plans, city)
        lessons.stop(city)
        return _shown(plans, city)

    return await run_in_threadpool(end)


@router.get("/{city}/models", responses=schemas.answers(200))
async def models(city: str, request: Request) -> dict[str, Any]:
    """What `options.model` may name: the city's own, if it has one, and ours."""
    plans = plans_of(request)

    def look() -> list[str]:
        finder(plans.store)(city)
        own = plans.learned_model(city) is not None
        return [*([f"{LEARNED}{city}"] if own else []), *shipped()]

    return {"models": await run_in_threadpool(look)}
