"""The service as a client sees it: plans, moves, exports, cities, VROOM, refusals."""

from __future__ import annotations

import io
import json
import re
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, cast

import httpx
import pytest

pytest.importorskip("fastapi")

from basemaps import write_basemap
from clusterfirst.files.json_files import instance_of
from clusterfirst.files.map_page import require_basemap
from clusterfirst.files.solutions import solution_of
from clusterfirst.files.source import DEFAULT_LIMITS
from clusterfirst.problem.errors import InputError
from clusterfirst.problem.solution import judge
from clusterfirst.service import schemas, worker
from clusterfirst.solving.solver import SolveOptions
from clusterfirst.stages.routes import Routes
from services import Service, random_day, running

Plan = dict[str, Any]


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    folder = tmp_path_factory.mktemp("service")
    street_map = str(write_basemap(folder / "town.pmtiles"))
    with running(folder / "data", "--basemap", street_map) as found:
        yield found


@pytest.fixture
def client(service: Service) -> httpx.Client:
    return service.client


def ask(client: httpx.Client, body: Any, wait: int = 20, **headers: str) -> Plan:
    """A plan; of a fifth of a second, unless the body says how long."""
    body = {"options": {"time_limit": 0.2}, **body}
    answer = client.post(
        "/v1/plans", json=body, headers={"Prefer": f"wait={wait}", **headers}
    )
    assert answer.status_code in (200, 202), answer.text
    return answer.json()


@pytest.fixture(scope="module")
def plan(service: Service) -> Plan:
    """A finished plan of 40 customers."""
    return ask(service.client, {"instance": random_day(40)})


def begun(client: httpx.Client, body: Any) -> str:
    """Where a plan is that has routes, and goes on."""
    where = f"/v1/plans/{ask(client, body, wait=0)['id']}"
    end = time.monotonic() + 20
    while not client.get(where).json().get("routes"):
        assert time.monotonic() < end
        time.sleep(0.02)
    return where


def judged(plan: Plan, document: Any) -> float:
    """The cost of a plan by the client's own judge."""
    instance = instance_of(document, DEFAULT_LIMITS)
    solution, cost = solution_of(plan, instance)
    verdict = judge(instance, solution, stated_cost=cost)
    assert verdict.feasible, verdict.violations
    return verdict.cost


def test_a_plan_is_feasible_and_keeps_its_history(plan: Plan) -> None:
    """The answer passes the judge and the curve falls to its cost."""
    assert plan["status"] == "done"
    assert judged(plan, random_day(40)) == pytest.approx(plan["cost"])
    costs = [point["cost"] for point in plan["history"]]
    assert costs == sorted(costs, reverse=True)
    assert costs[-1] == pytest.approx(plan["cost"])
    assert sum(plan["lengths"]) == pytest.approx(plan["cost"])


def test_a_plan_can_be_looked_at_again(client: httpx.Client, plan: Plan) -> None:
    """GET gives what POST gave, the instance reads back, the list has it."""
    assert client.get(f"/v1/plans/{plan['id']}").json() == plan
    document = client.get(f"/v1/plans/{plan['id']}/instance").json()
    assert judged(plan, document) == pytest.approx(plan["cost"])
    newest = client.get("/v1/plans").json()["plans"]
    assert plan["id"] in [row["id"] for row in newest]


def test_without_a_preference_the_answer_is_immediate(client: httpx.Client) -> None:
    """202 and a Location, and the plan is found there later."""
    body = {"instance": random_day(60), "options": {"time_limit": 0.2}}
    answer = client.post("/v1/plans", json=body)
    assert answer.status_code == 202
    where = answer.headers["Location"]
    end = time.monotonic() + 20
    while client.get(where).json()["status"] in ("queued", "running"):
        assert time.monotonic() < end
        time.sleep(0.02)
    assert client.get(where).json()["status"] == "done"


def test_events_tell_every_improvement_and_the_end(client: httpx.Client) -> None:
    """Costs fall, routes come along, and the last event is the plan."""
    body = {"instance": random_day(150), "options": {"time_limit": 0.5}}
    plan = ask(client, body, wait=0)
    found = []
    with client.stream("GET", f"/v1/plans/{plan['id']}/events") as stream:
        assert stream.headers["content-type"].startswith("text/event-stream")
        for line in stream.iter_lines():
            if line.startswith("event: "):
                found.append([line.removeprefix("event: ")])
            elif line.startswith("data: "):
                found[-1].append(json.loads(line.removeprefix("data: ")))
    *better, (last, done) = found
    assert last == "done"
    assert done["status"] == "done"
    assert better
    assert all(kind == "improvement" and news["routes"] for kind, news in better)
    costs = [news["cost"] for _, news in better]
    assert costs == sorted(costs, reverse=True)


def test_the_history_has_every_improvement(
    client: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker reports all that its search found, events all that it reported."""
    seen: list[float] = []
    sent: list[Any] = []

    class Watched(worker.Search):
        def better(self, cost: float, routes: Routes) -> None:
            seen.append(cost)
            super().better(cost, routes)

    class Pipe:
        send = sent.append

    monkeypatch.setattr(worker, "BETWEEN", 60.0)  # slow machines improve rarely
    search = Watched(cast(Connection, Pipe()))
    instance = instance_of(random_day(150), DEFAULT_LIMITS)
    search.run(worker.Task(instance, SolveOptions(iterations=4000, threads=1)))
    search.report()
    assert len(seen) > 3
    assert len(sent) < len(seen)  # it does not report more often than anybody looks
    told = [cost for _, points, _ in sent for _, cost, _ in points]
    assert told == seen
    plan = ask(client, {"instance": random_day(150)}, wait=0)
    points: list[dict[str, float]] = []
    with client.stream("GET", f"/v1/plans/{plan['id']}/events") as stream:
        for line in stream.iter_lines():
            if line.startswith("data: "):
                last = json.loads(line.removeprefix("data: "))
                points += last.get("points", [])
    assert points
    assert points == last["history"][: len(points)]


def test_delete_returns_the_best_so_far(client: httpx.Client) -> None:
    """A plan of 30 s ends within seconds of DELETE, with routes, and stays so."""
    body = {"instance": random_day(300), "options": {"time_limit": 30}}
    where = begun(client, body)
    begin = time.monotonic()
    stopped = client.delete(where).json()
    assert time.monotonic() - begin < 5
    assert stopped["status"] == "stopped"
    assert judged(stopped, random_day(300)) == pytest.approx(stopped["cost"])
    assert client.delete(where).json() == stopped


def test_a_plan_that_waits_is_stopped_at_once(client: httpx.Client) -> None:
    """Behind a long one, in a queue of one worker: no routes, and the other goes on."""
    body = {"instance": random_day(200), "options": {"time_limit": 20}}
    first, second = (ask(client, body, wait=0) for _ in range(2))
    stopped = client.delete(f"/v1/plans/{second['id']}").json()
    assert stopped["status"] == "stopped"
    assert "routes" not in stopped
    assert client.delete(f"/v1/plans/{first['id']}").json()["routes"]


def test_the_same_key_gives_the_same_plan(client: httpx.Client) -> None:
    """Idempotency-Key: one plan for two requests; another body is refused."""
    key = {"Idempotency-Key": "order 17 of Tuesday"}
    one = ask(client, schemas.EXAMPLES["plan"], **key)
    two = ask(client, schemas.EXAMPLES["plan"], **key)
    assert one["id"] == two["id"]
    twin = {"Idempotency-Key": "twins"}
    with ThreadPoolExecutor(8) as pool:
        twins = [
            pool.submit(ask, client, schemas.EXAMPLES["plan"], **twin) for _ in range(8)
        ]
    assert len({twin.result()["id"] for twin in twins}) == 1
    answer = client.post("/v1/plans", json={"instance": random_day(3)}, headers=key)
    assert (answer.status_code, answer.json()["code"]) == (409, "E508")


@pytest.mark.parametrize(
    "suffix",
    [
        "csv",
        "geojson",
        "gpx",
        "html",
        "json",
        "sheets.html",
        "sol",
        "png",
        "svg",
        "xlsx",
    ],
)
def test_exports(client: httpx.Client, plan: Plan, suffix: str) -> None:
    """Every format is a file with a name of ours; routes in .json read back."""
    answer = client.get(f"/v1/plans/{plan['id']}/export.{suffix}")
    assert answer.status_code == 200
    assert answer.headers["content-disposition"].startswith("attachment; ")
    if suffix == "json":
        assert judged(answer.json(), random_day(40)) == pytest.approx(plan["cost"])
    if suffix == "csv":
        assert len(answer.text.splitlines()) == 41 + 2 * len(plan["routes"])


def test_a_move_has_a_price_and_makes_a_new_plan(
    client: httpx.Client, plan: Plan
) -> None:
    """Prices agree with explain and the judge; undo is the parent, unchanged."""
    where = f"/v1/plans/{plan['id']}"
    customer = plan["routes"][0][0]
    why = client.get(f"{where}/explain/{customer}").json()
    assert why["route"] == 1
    for other in why["others"]:
        body = {"customer": customer, "route": other["route"]}
        priced = client.post(f"{where}/move", json=body).json()
        assert priced["price"] == pytest.approx(other["price"])
        assert priced["fits"] == other["fits"]
    alone = {"customer": customer, "route": None, "apply": True}
    moved = client.post(f"{where}/move", json=alone).json()
    assert moved["price"] == pytest.approx(why["alone"])
    new = moved["plan"]
    assert (new["parent"], new["version"]) == (plan["id"], plan["version"] + 1)
    assert new["cost"] == pytest.approx(plan["cost"] + moved["price"])
    assert judged(new, random_day(40)) == pytest.approx(new["cost"])
    assert client.get(where).json() == plan
    assert client.get(f"/v1/plans/{new['id']}").json() == new


def test_a_move_that_does_not_fit_is_priced_but_not_applied(
    client: httpx.Client,
) -> None:
    """The sentence is the judge's, and no plan is made."""
    day = {**random_day(4), "capacity": 10}
    for place, demand in zip(day["customers"], (10, 5, 5, 10), strict=True):
        place["demand"] = demand
    full = ask(client, {"instance": day})
    alone = next(r for r in full["routes"] if len(r) == 1)
    other = next(i for i, r in enumerate(full["routes"], 1) if r != alone)
    body = {"customer": alone[0], "route": other}
    where = f"/v1/plans/{full['id']}/move"
    priced = client.post(where, json=body).json()
    assert not priced["fits"]
    assert priced["problems"][0]["code"] == "E801"
    answer = client.post(where, json={**body, "apply": True})
    assert (answer.status_code, answer.json()["code"]) == (422, "E801")


def test_replanning_takes_orders_in_and_out(client: httpx.Client, plan: Plan) -> None:
    """A new plan with a parent serves who is there now, from the old routes."""
    added = {"id": "new", "lat": 51.05, "lon": 3.75, "demand": 2}
    body = {"add": [added], "remove": ["c1"], "options": {"time_limit": 0.2}}
    where = f"/v1/plans/{plan['id']}/replan"
    new = client.post(where, json=body, headers={"Prefer": "wait=20"}).json()
    assert new["parent"] == plan["id"]
    assert new["origin"] == "replanned"
    served = {c for route in new["routes"] for c in route}
    assert "new" in served
    assert "c1" not in served
    assert any("warm start" in note for note in new["notes"])


def test_a_table_with_coordinates_is_enough(client: httpx.Client) -> None:
    """CSV in the body, the figures in the query, the depot by its name."""
    text = schemas.EXAMPLES["table"]
    headers = {"Content-Type": "text/csv", "Prefer": "wait=20"}
    where = "/v1/plans?capacity=5&time_limit=0.2"
    answer = client.post(where, content=text, headers=headers)
    assert answer.status_code == 200, answer.text
    assert sorted(map(tuple, answer.json()["routes"])) == [("east",), ("north",)]


def test_a_spreadsheet_is_a_table_too(client: httpx.Client, plan: Plan) -> None:
    """XLSX with coordinates is planned; its other columns come out of the exports."""
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    for row in (
        ["Name", "Latitude", "Longitude", "Weight", "phone"],
        ["depot", 51.05, 3.72, None, ""],
        ["north", 51.07, 3.72, 3, "0123"],
        ["east", 51.05, 3.75, 4, "0456"],
    ):
        book.active.append(row)
    data = io.BytesIO()
    book.save(data)
    kind = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"
    headers = {"Content-Type": kind, "Prefer": "wait=20"}
    where = "/v1/plans?capacity=5&time_limit=0.2"
    answer = client.post(where, content=data.getvalue(), headers=headers)
    assert answer.status_code == 200, answer.text
    stops = client.get(f"/v1/plans/{answer.json()['id']}/export.csv").text
    assert "phone" in stops.splitlines()[0]
    assert "0456" in stops


def test_validate_names_every_line(client: httpx.Client) -> None:
    """All problems at once, with the lines of the table that was sent."""
    text = "id,lat,lon,demand\nnorth,51.07,3.72,x\ndepot,51,3.7,\neast,51,3.7,-1\n"
    headers = {"Content-Type": "text/csv"}
    answer = client.post("/v1/validate?capacity=5", content=text, headers=headers)
    found = answer.json()
    assert not found["valid"]
    assert [p["where"] for p in found["problems"]] == ["line 2 demand", "line 4 demand"]
    assert "upload" not in answer.text
    fine = client.post("/v1/validate", json=schemas.EXAMPLES["plan"]).json()
    assert fine["valid"]
    assert fine["least_vehicles"] == 2


def problems_of(client: httpx.Client, where: str, **body: Any) -> set[tuple[str, str]]:
    """Codes and places of what POST /validate finds wrong."""
    answer = client.post(where, **body)
    assert answer.status_code == 200, answer.text
    found = answer.json()
    assert not found["valid"]
    return {(p["code"], p["where"]) for p in found["problems"]}


def test_validate_finds_everything_in_json(client: httpx.Client) -> None:
    """Types, figures, unknown keys and options at once; one word for one mistake."""
    day = random_day(4)
    first, second, third, fourth = day["customers"]
    first["demand"], second["lat"], third["typo"] = -2, "north", 1
    fourth["id"] = first["id"]
    body = {
        "instance": {**day, "capacity": 0, "vehicles": -1},
        "options": {"seed": -1, "time_limit": "long", "speed": 3},
        "extra": 1,
    }
    assert problems_of(client, "/v1/validate", json=body) == {
        ("E307", "key in the body"),
        ("E307", "key in options"),
        ("E306", "options.time_limit"),
        ("E404", "seed"),
        ("E123", "capacity"),
        ("E404", "vehicles"),
        ("E133", f"demand of {first['id']}"),
        ("E306", "customers[1].lat"),
        ("E307", "key in customers[2]"),
        ("E308", "customers[3].id"),
    }
    wrong = {"depot": [], "customers": [7, day["customers"][0]], "capacity": "much"}
    assert problems_of(client, "/v1/validate", json={"instance": wrong}) == {
        ("E306", "depot"),
        ("E306", "customers[0]"),
        ("E306", "capacity"),
        ("E133", f"demand of {first['id']}"),
    }


def test_validate_finds_everything_around_a_table(client: httpx.Client) -> None:
    """Figures and options of the query beside the lines; orders of a city too."""
    table = "id,lat,lon,demand\ndepot,51,3.7,0\na,51.1,3.7,x\n"
    where = "/v1/validate?capacity=much&vehicles=-1&seed=-1&time_limit=61"
    csv = {"content": table, "headers": {"Content-Type": "text/csv"}}
    assert problems_of(client, where, **csv) == {
        ("E306", "capacity"),
        ("E306", "vehicles"),
        ("E404", "seed"),
        ("E513", "options.time_limit"),
        ("E313", "line 3 demand"),
    }
    assert problems_of(client, "/v1/validate", **csv) == {
        ("E122", "capacity"),
        ("E313", "line 3 demand"),
    }
    orders = [{"id": "4", "demand": "x"}, {"id": "none", "demand": 1}]
    body = {"city": "bundled", "orders": orders, "options": {"seed": 0.5}}
    body["capacity"] = 0
    assert problems_of(client, "/v1/validate", json=body) == {
        ("E306", "options.seed"),
        ("E123", "capacity"),
        ("E313", "orders[0].demand"),
        ("E407", "orders[1].id"),
    }


def test_check_judges_somebodys_routes(client: httpx.Client) -> None:
    """Feasible routes with their cost; a missing customer with its sentence."""
    good = client.post("/v1/check", json=schemas.EXAMPLES["check"]).json()
    assert good["feasible"]
    bad = {**schemas.EXAMPLES["check"], "routes": [["north", "north-east"]]}
    answer = client.post("/v1/check", json=bad).json()
    assert {p["code"] for p in answer["violations"]} == {"E802"}


def test_a_city_and_its_days(client: httpx.Client) -> None:
    """Created from a table; orders by id are planned; a day is added once."""
    table = "id,lat,lon\nhome,51.05,3.72\na,51.07,3.72\nb,51.05,3.75\n"
    headers = {"Content-Type": "text/csv"}
    made = client.post(
        "/v1/cities?name=Gent&depot=home&capacity=5", content=table, headers=headers
    )
    assert made.status_code == 201
    city = made.json()["id"]
    orders = [{"id": "a", "demand": 3}, {"id": "b", "demand": 4}]
    plan = ask(client, {"city": city, "orders": orders})
    assert len(plan["routes"]) == 2
    where = f"/v1/cities/{city}/days?date=2026-11-18"
    day = "id,demand\na,3\nb,4\n"
    assert client.post(where, content=day, headers=headers).status_code == 201
    assert client.post(where, content=day, headers=headers).status_code == 409
    shown = client.get(f"/v1/cities/{city}").json()
    assert shown["day_names"] == ["2026-11-18"]
    unknown = ask_error(client, {"city": city, "orders": [{"id": "z", "demand": 1}]})
    assert unknown == (422, "E407")


def ask_error(client: httpx.Client, body: Any) -> tuple[int, str]:
    answer = client.post("/v1/plans", json=body)
    assert answer.headers["content-type"] == "application/problem+json"
    return answer.status_code, answer.json()["code"]


def test_refusals_have_the_codes_of_the_command_line(client: httpx.Client) -> None:
    """Wrong bodies, options that a stranger must not have, infeasible days."""
    day = random_day(3)
    cases: list[tuple[Any, tuple[int, str]]] = [
        ({}, (422, "E306")),
        ({"instance": day, "typo": 1}, (422, "E307")),
        ({"instance": {**day, "capacity": 1}}, (422, "E201")),
        ({"instance": day, "options": {"method": "cmd:touch /tmp/x"}}, (422, "E404")),
        ({"instance": day, "options": {"method": "hgs"}}, (422, "E404")),
        ({"instance": day, "options": {"model": "../../etc"}}, (422, "E403")),
        ({"instance": day, "options": {"time_limit": 0.001}}, (422, "E402")),
        ({"instance": day, "options": {"time_limit": 61}}, (413, "E513")),
        ({"instance": random_day(20_001)}, (413, "E401")),
        ({"city": "nowhere", "orders": []}, (404, "E506")),
    ]
    for body, expected in cases:
        assert ask_error(client, body) == expected
    raw = client.post(
        "/v1/plans", content=b"{", headers={"Content-Type": "application/json"}
    )
    assert (raw.status_code, raw.json()["code"]) == (400, "E302")
    assert client.get("/v1/plans/nothing").json()["code"] == "E506"
    assert client.get("/nowhere").status_code == 404
    assert client.put("/v1/plans").status_code == 405
    wrong = client.post(
        "/v1/plans", content=b"a=1", headers={"Content-Type": "text/html"}
    )
    assert (wrong.status_code, wrong.json()["code"]) == (415, "E502")
    huge = client.post(
        "/v1/plans",
        content=b" " * (11 << 20),
        headers={"Content-Type": "application/json"},
    )
    assert (huge.status_code, huge.json()["code"]) == (413, "E501")


def test_no_answer_tells_about_the_machine(service: Service, tmp_path: Path) -> None:
    """No path, no traceback, no server's name, and the headers of a strict page."""
    for path in ("/", "/v1/limits", "/nowhere", "/page/../../settings.py"):
        answer = service.client.get(path)
        assert "content-security-policy" in answer.headers
        assert "server" not in answer.headers
        assert "Traceback" not in answer.text
        assert "/work" not in answer.text
        assert str(tmp_path.parent) not in answer.text


def test_foreign_pages_are_refused(client: httpx.Client) -> None:
    """Without a token neither another Host nor another Origin gets an answer."""
    for headers in ({"Host": "evil.example"}, {"Origin": "http://evil.example"}):
        answer = client.get("/v1/limits", headers=headers)
        assert (answer.status_code, answer.json()["code"]) == (403, "E504")


def test_demo_data_is_accepted_as_it_is(client: httpx.Client) -> None:
    """A newcomer's first two requests."""
    where = begun(client, client.get("/v1/demo-data").json())
    assert len(client.delete(where).json()["routes"]) >= 10


def test_metrics_count(client: httpx.Client, plan: Plan) -> None:
    """Prometheus' text: plans that are done, and one warm worker."""
    lines = client.get("/metrics").text.splitlines()
    assert "clusterfirst_workers 1" in lines
    (done,) = [
        x for x in lines if x.startswith('clusterfirst_plans_total{status="done"}')
    ]
    assert int(done.split()[-1]) >= 1


def test_vroom_speaks_vroom(client: httpx.Client) -> None:
    """Routes, steps, loads and summary; too large jobs are unassigned."""
    body = json.loads(json.dumps(schemas.EXAMPLES["vroom"]))
    body["jobs"].append({"id": 3, "location": [3.7, 51.0], "delivery": [9]})
    body["options"] = {"l": 0.2}
    answer = client.post("/v1/vroom", json=body).json()
    assert answer["code"] == 0
    assert answer["summary"]["routes"] == 2
    assert [job["id"] for job in answer["unassigned"]] == [3]
    served = {
        s["id"] for r in answer["routes"] for s in r["steps"] if s["type"] == "job"
    }
    assert served == {1, 2}
    for route in answer["routes"]:
        assert [s["type"] for s in route["steps"]] == ["start", "job", "end"]
        assert route["steps"][-1]["load"] == [0]


def test_vroom_matrices_and_refusals(client: httpx.Client) -> None:
    """Durations of a matrix are the cost; time windows are refused with code 2."""
    matrix = [[0, 5, 9], [5, 0, 5], [9, 5, 0]]
    body = {
        "jobs": [{"id": i, "location_index": i, "delivery": [1]} for i in (1, 2)],
        "vehicles": [{"id": 1, "start_index": 0, "end_index": 0, "capacity": [2]}],
        "matrices": {"car": {"durations": matrix}},
        "options": {"l": 0.2},
    }
    assert client.post("/v1/vroom", json=body).json()["summary"]["cost"] == 19
    body["jobs"][0]["time_windows"] = [[0, 10]]
    answer = client.post("/v1/vroom", json=body)
    assert answer.status_code == 400
    assert answer.json()["code"] == 2
    assert "time_windows" in answer.json()["error"]


def test_a_new_order_is_quoted_on_every_route(client: httpx.Client, plan: Plan) -> None:
    """The cheapest that fits comes first, and taking it costs what was said."""
    place = {"lat": 51.05, "lon": 3.75, "demand": 2}
    where = f"/v1/plans/{plan['id']}"
    offers = client.post(f"{where}/quote", json=place).json()["offers"]
    assert len(offers) == len(plan["routes"]) + 1
    fitting = [o["price"] for o in offers if o["fits"]]
    assert fitting == sorted(fitting)
    best = offers[0]
    routes = [list(route) for route in plan["routes"]]
    day = random_day(40)
    day["customers"].append({"id": "new", **place})
    least = float("inf")
    route = [] if best["route"] is None else routes[best["route"] - 1]
    others = [r for i, r in enumerate(routes) if i + 1 != best["route"]]
    for at in range(len(route) + 1):
        tried = [*others, [*route[:at], "new", *route[at:]]]
        body = {"instance": day, "routes": tried}
        least = min(least, client.post("/v1/check", json=body).json()["cost"])
    assert least - plan["cost"] == pytest.approx(best["price"])


def test_a_quoted_order_is_taken_where_it_was_priced(
    client: httpx.Client, plan: Plan
) -> None:
    """On that route, at that price, and nothing else moves; once by its key."""
    where = f"/v1/plans/{plan['id']}/quote"
    order = {"id": "call", "lat": 51.06, "lon": 3.73, "demand": 1}
    offers = client.post(where, json=order).json()["offers"]
    taken = 0
    for offer in [o for o in offers if o["route"]]:
        body = {**order, "route": offer["route"], "apply": True}
        key = {"Idempotency-Key": f"taken {offer['route']}"}
        answer = client.post(where, json=body, headers=key)
        if not offer["fits"]:
            assert answer.status_code == 422
            continue
        new = answer.json()["plan"]
        document = client.get(f"/v1/plans/{new['id']}/instance").json()
        assert judged(new, document) == pytest.approx(plan["cost"] + offer["price"])
        assert (new["parent"], new["version"]) == (plan["id"], plan["version"] + 1)
        assert "call" in new["routes"][offer["route"] - 1]
        left = [[c for c in route if c != "call"] for route in new["routes"]]
        assert left == plan["routes"]
        again = client.post(where, json=body, headers=key).json()
        assert again["plan"]["id"] == new["id"]
        taken += 1
    assert taken


def test_the_network_shows_its_stages(client: httpx.Client, plan: Plan) -> None:
    """A seed for every route and a share for every customer."""
    answer = client.get(f"/v1/plans/{plan['id']}/stages")
    assert answer.status_code == 200, answer.text
    found = answer.json()
    assert len(found["seeds"]) == len(plan["routes"])
    assert len(found["shares"]) == 40
    assert all(-1e-6 <= share <= 1 + 1e-6 for share in found["shares"].values())


def test_the_page_is_light_and_whole(client: httpx.Client) -> None:
    """Every file the page names is served with its type, in less than 600 kB."""
    page = client.get("/")
    assert page.headers["content-type"].startswith("text/html")
    assert "script-src 'self'" in page.headers["content-security-policy"]
    seen, todo, weight = {"/"}, [("/", page.text)], len(page.content)
    while todo:
        base, text = todo.pop()
        named = re.findall(r'(?:src|href)="(/[^"]+)"|from "(\./[^"]+)"', text)
        for absolute, relative in named:
            path = absolute or f"/page/{relative[2:]}"
            if path in seen or path.startswith("/v1"):
                continue
            seen.add(path)
            answer = client.get(path)
            assert answer.status_code == 200, (base, path)
            weight += len(answer.content)
            if path.endswith(".js") and "leaflet" not in path:
                assert "javascript" in answer.headers["content-type"]
                todo.append((path, answer.text))
    assert len(seen) >= 9
    assert weight < 600_000
    assert "https://" not in page.text


def test_a_city_prices_orders_and_forecasts(client: httpx.Client) -> None:
    """Likely days of the bundled city: a price with its spread, a fleet for 95 %."""
    found = client.post("/v1/quote", json=schemas.EXAMPLES["city_quote"]).json()
    assert found["fits"]
    assert found["now"]["price"] >= 0
    assert found["end_of_day"]["p10"] <= found["end_of_day"]["p90"]
    ahead = client.post("/v1/forecast", json=schemas.EXAMPLES["forecast"]).json()
    assert ahead["days"] == 5
    assert ahead["fleet_for_95_percent"] >= ahead["fleet_by_load_for_95_percent"] > 0
    many = {**schemas.EXAMPLES["forecast"], "days": 10**6}
    assert client.post("/v1/forecast", json=many).json()["code"] == "E404"


def test_a_basemap_is_served_by_ranges(client: httpx.Client) -> None:
    """Only what was asked for travels; no path of the file is told."""
    where = client.get("/v1/limits").json()["basemap"]
    answer = client.get(where, headers={"Range": "bytes=0-6"})
    assert (answer.status_code, answer.content) == (206, b"PMTiles")
    assert "town" not in str(answer.headers)


@pytest.mark.parametrize(
    ("content", "word"), [(b"PMTiles\x02" + bytes(200), "version 3"), (b"x", "version")]
)
def test_what_is_no_basemap_is_refused(
    tmp_path: Path, content: bytes, word: str
) -> None:
    """By a sentence, before the service starts; so are tiles that are pictures."""
    wrong = tmp_path / "wrong.pmtiles"
    wrong.write_bytes(content)
    with pytest.raises(InputError, match=word):
        require_basemap(wrong)
    with pytest.raises(InputError, match="pictures"):
        require_basemap(write_basemap(wrong, tile_type=2))
    with pytest.raises(InputError, match="cannot be read"):
        require_basemap(tmp_path / "none.pmtiles")


def test_every_problem_of_a_table_comes_with_its_line(client: httpx.Client) -> None:
    """Places and demands are looked at together; what names a stop gets its line."""
    lines = ["id,lat,lon,demand", "depot,51,3.7,0", "a,51.1,3.7,x", "b,91,3.7,2"]
    table = "\n".join([*lines, "a,51.2,3.7,-1", "c,51.3,word,3"])
    headers = {"Content-Type": "text/csv"}
    where = "/v1/validate?capacity=10"
    found = client.post(where, content=table, headers=headers).json()["problems"]
    assert [(p["line"], p["code"]) for p in found] == [
        (3, "E313"),
        (4, "E132"),
        (5, "E308"),
        (5, "E133"),
        (6, "E313"),
    ]
    table = "id,lat,lon,demand\nb,51,3.7,12\ndepot,51,3.8,0\nc,51.1,3.7,11\n"
    answer = client.post(where, content=table, headers=headers).json()
    assert not answer["valid"]
    assert [(p["line"], p["code"]) for p in answer["problems"]] == [
        (2, "E201"),
        (4, "E201"),
    ]


def test_a_key_makes_one_thing_whatever_it_is(client: httpx.Client, plan: Plan) -> None:
    """Moves, new plannings, cities and days are made once for each Idempotency-Key."""
    where = f"/v1/plans/{plan['id']}"
    move = {"customer": "c1", "route": None, "apply": True}
    town = "id,lat,lon\ndepot,51.05,3.72\nnorth,51.07,3.72\n"
    table = {"Content-Type": "text/csv"}
    add = {"add": [{"id": "n", "lat": 51.02, "lon": 3.72, "demand": 1}]}
    add["options"] = {"time_limit": 0.1}
    requests = [
        (f"{where}/move", {"json": move}, lambda a: a["plan"]["id"]),
        (f"{where}/replan", {"json": add}, lambda a: a["id"]),
        ("/v1/cities", {"content": town, "headers": table}, lambda a: a["id"]),
    ]
    city = client.post("/v1/cities?name=keys", content=town, headers=table).json()["id"]
    day = {"content": "id,demand\nnorth,3\n", "headers": table}
    days = f"/v1/cities/{city}/days?date=2026-11-18"
    requests.append((days, day, lambda a: (a["dates"], a["orders"])))
    for number, (path, given, made) in enumerate(requests):
        key = {"Idempotency-Key": f"once {number}", **given.pop("headers", {})}
        first, second = (client.post(path, **given, headers=key) for _ in range(2))
        assert made(first.json()) == made(second.json())
        assert first.status_code < 300
        other = {**key, "Idempotency-Key": "once 0"}
        if number:  # the same key, but another request
            refused = client.post(path, **given, headers=other)
            assert (refused.status_code, refused.json()["code"]) == (409, "E508")


def test_limits_of_vehicles_and_one_way_streets_are_warm(client: httpx.Client) -> None:
    """What searches with limits is compiled before the service is ready."""
    matrix = [[0, 5, 7], [6, 0, 3], [7, 2, 0]]
    body = {
        "jobs": [{"id": i, "location_index": i, "delivery": [3]} for i in (1, 2)],
        "vehicles": [{"id": 7, "start_index": 0, "end_index": 0, "capacity": [6]}],
        "matrices": {"car": {"durations": matrix}},
        "options": {"l": 0.2},
    }
    begin = time.monotonic()
    answer = client.post("/v1/vroom", json=body).json()
    assert time.monotonic() - begin < 3.0
    assert answer["summary"]["cost"] == 15  # the other way round it is 16


def test_vroom_leaves_out_what_does_not_fit(client: httpx.Client) -> None:
    """A fleet that is too small is no error of the client's; nor are idle trucks."""
    body = json.loads(json.dumps(schemas.EXAMPLES["vroom"]))
    del body["vehicles"][1]
    body["options"] = {"l": 0.2}
    answer = client.post("/v1/vroom", json=body).json()
    assert (answer["code"], answer["summary"]["routes"]) == (0, 1)
    assert len(answer["unassigned"]) == 1
    for job in body["jobs"]:
        del job["delivery"]
        job["service"] = 60
    del body["vehicles"][0]["capacity"]
    answer = client.post("/v1/vroom", json=body).json()
    assert answer["unassigned"] == []
    assert answer["summary"]["service"] == 120
    (route,) = answer["routes"]
    assert route["steps"][-1]["arrival"] == route["duration"] + 120


def test_vroom_minds_every_option_and_matrix(client: httpx.Client) -> None:
    """Costs are made least, durations and distances told; at its clients' address."""
    costs = [[0, 1, 9], [9, 0, 1], [1, 9, 0]]  # 0 1 2 0 is cheap
    tables = {
        "costs": costs,
        "durations": [[0, 50, 60], [50, 0, 70], [60, 70, 0]],
        "distances": [[0, 500, 600], [500, 0, 700], [600, 700, 0]],
    }
    body: dict[str, Any] = {
        "jobs": [{"id": i, "location_index": i, "delivery": [1]} for i in (1, 2)],
        "vehicles": [{"id": 1, "start_index": 0, "end_index": 0, "capacity": [2]}],
        "matrices": {"car": tables},
        "options": {"l": 0.2, "g": False, "c": False},
    }
    answer = client.post("/v1/vroom/", json=body).json()
    summary = answer["summary"]
    assert (summary["cost"], summary["duration"], summary["distance"]) == (3, 180, 1800)
    (route,) = answer["routes"]
    assert [step["arrival"] for step in route["steps"]] == [0, 50, 120, 180]
    assert [step["distance"] for step in route["steps"]] == [0, 500, 1200, 1800]
    for key, value in (("g", True), ("c", True), ("x", 5), ("t", 4), ("l", "long")):
        asked = {**body, "options": {key: value}}
        refused = client.post("/v1/vroom", json=asked)
        assert (refused.status_code, refused.json()["code"]) == (400, 2), key
        assert "options" in refused.json()["error"]
    late = client.post("/v1/vroom", json={**body, "options": {"l": 61}})
    assert (late.status_code, late.json()["code"]) == (413, 4)
    for wrong in ({"costs": costs}, {**tables, "distances": [[0]]}):
        refused = client.post("/v1/vroom", json={**body, "matrices": {"car": wrong}})
        assert (refused.status_code, refused.json()["code"]) == (400, 2)
    assert client.get("/v1/vroom/health").status_code == 200


def test_vroom_refuses_in_its_own_words(client: httpx.Client) -> None:
    """Code 2 and 400 for input, 4 and 413 for size, whoever refuses."""
    place = [3.72, 51.05]
    body = {
        "jobs": [{"id": 1, "location": place, "skills": [1]}],
        "vehicles": [{"id": 7, "start": place, "end": place, "capacity": [5]}],
    }
    answers = [
        (client.post("/v1/vroom", json=body), 400, 2, "skills"),
        (client.post("/v1/vroom", content="{}"), 400, 2, "Content-Type"),
        (
            client.post(
                "/v1/vroom",
                content=b" " * (11 << 20),
                headers={"Content-Type": "application/json"},
            ),
            413,
            4,
            "limit",
        ),
    ]
    for answer, status, code, word in answers:
        assert (answer.status_code, answer.json()["code"]) == (status, code)
        assert word in answer.json()["error"]


def test_warnings_of_the_command_line_are_told(client: httpx.Client) -> None:
    """A city with few past days warns, as `clusterfirst forecast` does."""
    table = {"Content-Type": "text/csv"}
    town = "id,lat,lon\ndepot,51.05,3.72\nnorth,51.07,3.72\nwest,51.05,3.7\n"
    city = client.post("/v1/cities?capacity=9", content=town, headers=table).json()
    day = f"/v1/cities/{city['id']}/days?date=2026-11-02"
    client.post(day, content="id,demand\nnorth,3\nwest,1\n", headers=table)
    answer = client.post("/v1/forecast", json={"city": city["id"], "days": 2}).json()
    assert [words.split()[0] for words in answer["warnings"]] == ["W413"]
