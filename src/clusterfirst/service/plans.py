"""What can be done with plans: ask for one, look at it, move a stop, plan again.

A plan never changes: a move that is applied and a new planning make another plan with
a parent and the next version, so that undo is a look at the parent and two people who
edit the same plan do not overwrite each other.
"""

from __future__ import annotations

import json
import sqlite3
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

from clusterfirst.files import instance_document, write_solution
from clusterfirst.files.by_suffix import SOLUTION_SUFFIXES
from clusterfirst.files.json_files import parse_instance
from clusterfirst.files.solutions import solution_document, solution_of
from clusterfirst.files.source import DEFAULT_LIMITS
from clusterfirst.files.strict_json import format_json
from clusterfirst.problem.errors import ClusterfirstError, InputError, Problem
from clusterfirst.problem.instance import Instance
from clusterfirst.problem.solution import Solution, judge
from clusterfirst.service.choices import LEARNED, solve_options
from clusterfirst.service.inputs import Body, Wish, document_of, nameless
from clusterfirst.service.moves import (
    alone,
    figures,
    moved_to,
    offers,
    read_move,
    row_of,
    unused_name,
)
from clusterfirst.service.problems import Refusal
from clusterfirst.service.replan import with_changes
from clusterfirst.service.settings import BASEMAP, ServiceSettings
from clusterfirst.service.store import Key, PlanRow, Store, digest, new_id
from clusterfirst.service.worker import Task
from clusterfirst.service.worker_pool import Live, WorkerPool
from clusterfirst.solving.explaining.customer import why
from clusterfirst.solving.options import SolveOptions
from clusterfirst.solving.solver import default_time_limit

MEDIA_TYPES = {
    "csv": "text/csv; charset=utf-8",
    "geojson": "application/geo+json",
    "gpx": "application/gpx+xml",
    "html": "text/html; charset=utf-8",
    "json": "application/json",
    "sheets.html": "text/html; charset=utf-8",
    "png": "image/png",
    "sol": "text/plain; charset=utf-8",
    "svg": "image/svg+xml",
    "xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
}
KEPT = 64  # instances in memory
Made = TypeVar("Made")
PLACE_KEYS = {"id", "lat", "lon", "x", "y", "demand"}
FORMATS = [f for f in MEDIA_TYPES if Path(f".x.{f}").suffix in SOLUTION_SUFFIXES]


class Plans:
    """The plans of the store and those on their way."""

    def __init__(self, settings: ServiceSettings, store: Store) -> None:
        self.limits = settings.limits
        self.learned = settings.learned
        self.basemap = None if settings.basemap is None else BASEMAP
        self.store = store
        self.pool = WorkerPool(settings, self._save)
        self._instances: dict[str, Instance] = {}  # the last ones, by hash
        for row in store.unfinished():  # accepted before a restart or a kill
            try:
                self.pool.submit(self._live(row, self._read(row.instance)))
            except ClusterfirstError as error:  # within the limits of then, not of now
                problems = [problem.as_dict() for problem in error.problems]
                store.finish_plan(row.id, "failed", {"problems": problems})

    def _save(self, live: Live, status: str) -> None:
        if live.saved:
            self.store.finish_plan(live.plan, status, live.answer)

    def _read(self, known_as: str) -> Instance:
        found = self._instances.get(known_as)
        if found is None:
            text = self.store.instance(known_as)
            found = self._keep(known_as, parse_instance(text, DEFAULT_LIMITS))
        return found

    def _keep(self, known_as: str, instance: Instance) -> Instance:
        """Keep an instance at hand; the oldest goes."""
        while len(self._instances) >= KEPT:
            self._instances.pop(next(iter(self._instances), ""), None)
        self._instances[known_as] = instance
        return instance

    def learned_model(self, city: str) -> Path | None:
        """The model that a city has learned."""
        found = self.learned / city / "model"
        return found if (found / "manifest.json").is_file() else None

    def with_model(self, options: SolveOptions) -> SolveOptions:
        """The options with the folder of a model that a city has learned."""
        if options.model is None or not options.model.startswith(LEARNED):
            return options
        model = self.learned_model(options.model.removeprefix(LEARNED))
        if model is None:
            rule = "this city has not learned a model; ask it to learn"
            raise InputError(Problem("E403", "options.model", rule=rule))
        return replace(options, model=str(model))

    def _live(self, row: PlanRow, instance: Instance) -> Live:
        given = solve_options(row.request.get("options", {}), self.limits)
        options = self.with_model(given)
        limit = options.time_limit or default_time_limit(instance.num_customers)
        task = Task(instance, options, row.request.get("start"))
        return Live(row.id, task, limit)

    # --- asking -------------------------------------------------------------------

    def once(self, key: Key | None, make: Callable[[], Made]) -> Made | str:
        """Make or change something; a key that was used gives what it made before."""
        if key is None:
            return make()
        found = self._made_before(key)
        if found is not None:
            return found
        try:
            return make()
        except (sqlite3.IntegrityError, Refusal):  # the same came twice at once
            found = self._made_before(key)
            if found is None:
                raise
            return found

    def _made_before(self, key: Key) -> str | None:
        used = self.store.made_with(key[0])
        if used is not None and used[0] != key[1]:
            rule = "this key was used with another request; take a new one"
            raise Refusal(Problem("E508", "Idempotency-Key", rule=rule))
        return None if used is None else used[1]

    def ask(
        self,
        wish: Wish,
        *,
        key: Key | None = None,
        parent: PlanRow | None = None,
        start: Sequence[Sequence[int]] | None = None,
    ) -> Live:
        """Write a plan down and queue it."""
        wish.instance.require_feasible()
        request: dict[str, Any] = {"options": wish.chosen, "warnings": wish.warnings}
        if start is not None:
            request["start"] = start
        origin = "solved" if parent is None else "replanned"
        row, document = self._row(wish.instance, request, origin, parent)
        self._keep(row.instance, wish.instance)
        live = self._live(row, wish.instance)
        self.store.add_plan(row, document, key)
        self.pool.submit(live)
        return live

    def _row(
        self,
        instance: Instance,
        request: dict[str, Any],
        origin: str,
        parent: PlanRow | None,
    ) -> tuple[PlanRow, str]:
        """A plan to be, and the document of its instance."""
        document = format_json(instance_document(instance))
        what, now = digest(document), time.time()
        row = PlanRow(new_id(), now, instance.name, origin, None, 1, what, request)
        if parent is None:
            return row, document
        version = parent.version + 1
        row = replace(row, parent=parent.id, version=version, name=parent.name)
        return row, document

    # --- looking ------------------------------------------------------------------

    def row(self, plan: str) -> PlanRow:
        """A plan as it is stored."""
        found = self.store.plan(plan)
        if found is None:
            # Nobody learns whether an id that is not theirs was ever used.
            rule = "there is none of this id, or it was kept for longer than the limit"
            raise Refusal(Problem("E506", "plan", rule=rule))
        return found

    def solution(self, row: PlanRow) -> tuple[Instance, Solution]:
        """The routes of a finished plan, in rows of its instance."""
        if not row.answer.get("routes"):
            rule = (
                "it has no routes yet" if row.status == "queued" else "it has no routes"
            )
            raise Refusal(Problem("E511", "plan", row.status, rule))
        instance = self._read(row.instance)
        return instance, solution_of(row.answer, instance)[0]

    def document(self, plan: str) -> dict[str, Any]:
        """A plan as clients see it, with the best routes so far."""
        live = self.pool.live.get(plan)
        row = self.row(plan)
        head = {
            "id": row.id,
            "name": row.name,
            "status": row.status,
            "version": row.version,
            "parent": row.parent,
            "origin": row.origin,
            "created": when(row.created),
            "finished": None if row.finished is None else when(row.finished),
            "options": row.request.get("options", {}),
            "warnings": list(row.request.get("warnings", [])),
        }
        if row.status != "queued":
            body = {k: v for k, v in row.answer.items() if k != "status"}
            body["statement"] = row.answer.get("status", "")
            if row.answer.get("routes"):
                body |= figures(*self.solution(row))
            return {**head, **body}
        if live is None:  # finished in between: the next look finds it
            return {**head, "history": []}
        head |= {"status": live.status, "history": list(live.history)}
        return head if live.best is None else head | best_so_far(live)

    def export(self, plan: str, suffix: str) -> tuple[bytes, str]:
        """The routes as a file, and its media type."""
        if suffix not in FORMATS:
            rule = f"known here: {', '.join(FORMATS)}"
            raise InputError(Problem("E106", "format", suffix, rule))
        row = self.row(plan)
        instance, solution = self.solution(row)
        document = None if suffix != "json" else self.document(plan)
        with tempfile.TemporaryDirectory(prefix="clusterfirst-") as folder, nameless():
            path = Path(folder) / f"plan.{suffix}"
            write_solution(path, instance, solution, document)
            return path.read_bytes(), MEDIA_TYPES[suffix]

    # --- changing -----------------------------------------------------------------

    def move(
        self,
        plan: str,
        customer: str,
        route: int | None,
        apply: bool,
        key: Key | None = None,
    ) -> dict[str, Any]:
        """The price of a customer on another route (None: one of its own).

        With `apply`, and if the judge has nothing against it, also the new plan.
        """
        row = self.row(plan)
        instance, solution = self.solution(row)
        moved = moved_to(instance, solution, customer, route)
        before, after = judge(instance, solution), judge(instance, moved)
        answer: dict[str, Any] = {
            "customer": customer,
            "route": route,
            "price": after.cost - before.cost,
            "unit": instance.unit,
            "fits": after.feasible,
            "problems": [problem.as_dict() for problem in after.violations],
        }
        if apply:
            answer["plan"] = self._applied(row, instance, moved, answer, key)
        return answer

    def _applied(
        self,
        row: PlanRow,
        instance: Instance,
        solution: Solution,
        move: dict[str, Any],
        key: Key | None,
    ) -> dict[str, Any]:
        """The plan that a move makes, if the judge has nothing against it."""
        if not move["fits"]:
            raise InputError(judge(instance, solution).violations)
        request = {**row.request, "move": {k: move[k] for k in ("customer", "route")}}
        words = f"{move['customer']}, {move['price']:+.4g} {instance.unit}"
        answer = row.answer | solution_document(instance, solution)
        answer["status"] = f"moved by hand: {words}".strip()

        def make() -> str:
            child, document = self._row(instance, request, "moved", row)
            now = time.time()
            done = replace(child, answer=answer, status="done", finished=now)
            self.store.add_plan(done, document, key)
            return done.id

        return self.document(self.once(key, make))

    def explanation(self, plan: str, customer: str) -> dict[str, Any]:
        """Why a customer is where it is: the price of every other vehicle."""
        row = self.row(plan)
        instance, solution = self.solution(row)
        c = row_of(instance, customer)
        own = next(k for k, route in enumerate(solution.routes) if c in route)
        verdict = judge(instance, solution)
        by_itself = judge(instance, moved_to(instance, solution, customer, None))
        others = offers(instance, solution, c)
        return {
            "customer": customer,
            "demand": instance.demands[c].item(),
            "route": own + 1,
            "load": verdict.loads[own],
            "capacity": instance.capacity,
            "unit": instance.unit,
            "alone": by_itself.cost - verdict.cost,
            "others": [offer for offer in others if offer["route"] is not None],
            "sentences": list(why(instance, solution, customer).sentences),
        }

    def quote(self, plan: str, body: Body, key: Key | None = None) -> dict[str, Any]:
        """The price of a new order on every route, and on one of its own.

        With `apply` it is taken at the price of its `route`, in a new plan.
        """
        row = self.row(plan)
        old, solution = self.solution(row)
        given = document_of(body, PLACE_KEYS | {"route", "apply"})
        route, apply = read_move(given)
        place = {key: given[key] for key in given.keys() & PLACE_KEYS}
        place.setdefault("id", unused_name(old.ids))
        instance = with_changes(old, [place], set(), self.limits)
        found: dict[str, Any] = {"unit": old.unit}
        found["offers"] = offers(instance, solution, instance.num_customers)
        if apply:
            taken = moved_to(instance, alone(instance, solution), place["id"], route)
            verdict = judge(instance, taken)
            found |= {"customer": place["id"], "route": route, "fits": verdict.feasible}
            found["price"] = verdict.cost - judge(instance, solution).cost
            found["plan"] = self._applied(row, instance, taken, found, key)
        return found


def best_so_far(live: Live) -> dict[str, Any]:
    """The routes of a plan that runs, judged like any others."""
    assert live.best is not None
    solution = Solution(live.best)
    document = solution_document(live.instance, solution)
    return document | figures(live.instance, solution)


def when(seconds: float) -> str:
    """A moment as clients see it."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")


def dumps(document: dict[str, Any]) -> str:
    """JSON on one line, for events."""
    return json.dumps(document, allow_nan=False, separators=(",", ":"))
