"""The service under load, with kills, too many requests, and its page in a browser.

    python benchmarks/service.py [--seconds 3600] [--worker-kills 500]
        [--service-kills 20] [--only overhead first load overload kills page]
        [--store]

Every answer is judged by this client. The load is open: 4 plans per second of N = 100
at 0.2 s each, whatever the service does. Figures belong to an idle machine of two
cores; the load average is printed with them. `--store` writes them to
benchmarks/results/service.json, where docs/service.md quotes them from.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import sqlite3
import statistics
import sys
import tempfile
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))
from clusterfirst.files.json_files import instance_of
from clusterfirst.files.solutions import solution_of
from clusterfirst.files.source import DEFAULT_LIMITS
from clusterfirst.problem.solution import judge
from services import Service, random_day

RESULTS = Path(__file__).parent / "results" / "service.json"
RATE = 4.0  # plans per second
LIMIT = 0.2  # seconds of one plan
CUSTOMERS = 100
SIZES = (200, 2000, 5000, 20_000)  # customers, for the first routes
PARTS = ("overhead", "first", "load", "overload", "kills", "page")


def body_of(seed: int) -> dict[str, Any]:
    """A day of its own for each request, so that mixed answers are found."""
    return {"instance": random_day(CUSTOMERS, seed), "options": {"time_limit": LIMIT}}


def fault_of(answer: dict[str, Any], body: dict[str, Any]) -> str:
    """What is wrong with an answer by our own judge; nothing: an empty string."""
    if answer["name"] != body["instance"]["name"]:
        return "mixed"
    instance = instance_of(body["instance"], DEFAULT_LIMITS)
    solution, cost = solution_of(answer, instance)
    return "" if judge(instance, solution, stated_cost=cost).feasible else "wrong"


def percentile(values: list[float], share: float) -> float:
    """A percentile by rank."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def memory_of(service: Service) -> int:
    """Bytes that the service and its workers have made for themselves.

    Libraries do not count: their share of a process falls and rises with how many
    other programs on the machine have them open.
    """
    total = 0
    for pid in (service.process.pid, *workers_of(service)):
        with_shared = Path(f"/proc/{pid}/smaps_rollup").read_text()
        total += 1024 * int(with_shared.split("Pss_Anon:")[1].split()[0])
    return total


def workers_of(service: Service) -> list[int]:
    """Process ids of the workers."""
    tasks = Path(f"/proc/{service.process.pid}/task")
    found: list[int] = []
    for task in tasks.iterdir():
        found += map(int, (task / "children").read_text().split())
    return found


def overhead(service: Service, count: int = 60) -> dict[str, Any]:
    """Seconds of a request beyond those that `solve` reports for itself."""
    extra, before = [], cpu_of(service)
    for seed in range(count):
        begin = time.perf_counter()
        answer = service.client.post(
            "/v1/plans", json=body_of(seed), headers={"Prefer": "wait=20"}
        )
        spent = time.perf_counter() - begin
        seconds = answer.json()["seconds"]
        extra.append(spent - sum(v for k, v in seconds.items() if k != "start-up"))
    middle, high = statistics.median(extra), percentile(extra, 0.95)
    cpu = (cpu_of(service) - before) / count
    return {
        "median_ms": round(1000 * middle, 1),
        "p95_ms": round(1000 * high, 1),
        "cpu_ms": round(1000 * cpu, 1),  # does not depend on the load
    }


def first(service: Service, tries: int = 3) -> dict[str, Any]:
    """Seconds from the request to the first event with routes, by customers."""
    found: dict[str, Any] = {}
    for customers in SIZES:
        waits = []
        for seed in range(tries):
            day = random_day(customers, customers + seed)
            body = json.dumps({"instance": day, "options": {"time_limit": 10}})
            headers = {"Content-Type": "application/json"}
            begin = time.perf_counter()
            asked = service.client.post("/v1/plans", content=body, headers=headers)
            where = asked.headers["Location"]
            with service.client.stream("GET", f"{where}/events") as events:
                for line in events.iter_lines():
                    if line.startswith("data: "):
                        break
            waits.append(time.perf_counter() - begin)
            service.client.delete(where)
        found[f"n{customers}_s"] = round(statistics.median(waits), 2)
    return found


def cpu_of(service: Service) -> float:
    """CPU seconds of the process that answers."""
    fields = (
        Path(f"/proc/{service.process.pid}/stat").read_text().rsplit(")")[1].split()
    )
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Load:
    """Requests at a steady pace, whatever comes back."""

    def __init__(self, service: Service, rate: float) -> None:
        self.service, self.rate = service, rate
        self.waits: list[float] = []
        self.statuses: Counter[str] = Counter()
        self.refusals: list[float] = []
        self.answered: dict[str, Any] = {}  # plan -> its routes
        self.lock = threading.Lock()
        self.client = httpx.Client(
            base_url=f"http://127.0.0.1:{service.port}",
            timeout=60,
            limits=httpx.Limits(max_connections=400, max_keepalive_connections=400),
        )

    def run(self, seconds: float, first: int = 0) -> float:
        """Send for so long, or until Ctrl-C, and wait for the last answers.

        Returns the seconds it sent.
        """
        begin = time.monotonic()
        with ThreadPoolExecutor(256) as pool, suppress(KeyboardInterrupt):
            for number in range(int(seconds * self.rate)):
                due = begin + number / self.rate
                time.sleep(max(0.0, due - time.monotonic()))
                pool.submit(self._send, first + number, time.monotonic())
        return time.monotonic() - begin

    def _send(self, seed: int, asked: float) -> None:
        body = body_of(seed)
        try:
            headers = {"Prefer": "wait=50"}
            answer = self.client.post("/v1/plans", json=body, headers=headers)
            waited = time.monotonic() - asked
            plan = answer.json()
            what = str(answer.status_code)
            if answer.status_code == 200:
                what = fault_of(plan, body) if plan.get("routes") else plan["status"]
        except (httpx.TransportError, ValueError) as error:
            with self.lock:
                self.statuses[type(error).__name__] += 1
            return
        with self.lock:
            self.statuses[what or "right"] += 1
            if answer.status_code == 429:
                self.refusals.append(waited)
            else:
                self.waits.append(waited)
            if not what:
                self.answered[plan["id"]] = plan["routes"]

    def figures(self) -> dict[str, Any]:
        """Counts, and seconds of those that were planned."""
        found: dict[str, Any] = {"answers": dict(self.statuses)}
        if self.waits:
            found["p50_s"] = round(statistics.median(self.waits), 3)
            found["p99_s"] = round(percentile(self.waits, 0.99), 3)
        if self.refusals:
            found["refused_p99_ms"] = round(1000 * percentile(self.refusals, 0.99), 1)
            found["refused_max_ms"] = round(1000 * max(self.refusals), 1)
        return found


def flatness(memory: list[int]) -> dict[str, Any]:
    """How much the memory grew since the first look, and its largest spread."""
    return {
        "memory_mb": memory[-1] >> 20,
        "memory_growth_percent": round(100 * (memory[-1] / memory[0] - 1), 1),
        "memory_spread_percent": round(100 * (max(memory) / min(memory) - 1), 1),
    }


def load(service: Service, seconds: float) -> dict[str, Any]:
    """The steady load, with the memory and the load average of every minute.

    Ctrl-C ends it and gives what was reached.
    """
    warm = Load(service, RATE)
    warm.run(min(60.0, seconds / 4))
    memory, averages = [memory_of(service)], [os.getloadavg()[0]]
    steady, over = Load(service, RATE), threading.Event()

    def watch() -> None:
        while not over.wait(60.0):
            memory.append(memory_of(service))
            averages.append(os.getloadavg()[0])
            now = {**steady.figures(), **flatness(memory)}
            print(len(memory) - 1, "min", json.dumps(now), flush=True)

    threading.Thread(target=watch, daemon=True).start()
    reached = steady.run(seconds, first=100_000)
    over.set()
    memory.append(memory_of(service))
    return {
        "seconds": round(reached),
        **steady.figures(),
        **flatness(memory),
        "load_averages": [round(min(averages), 1), round(max(averages), 1)],
    }


def overload(service: Service, seconds: float = 20.0) -> dict[str, Any]:
    """Ten times more than fits; refusals have to be quick."""
    many = Load(service, 10 * RATE)
    many.run(seconds, first=500_000)
    return {"seconds": seconds, **many.figures()}


def kills(
    folder: Path, service: Service, worker_kills: int, service_kills: int
) -> dict[str, Any]:
    """Kill workers and the service while plans are asked for; then count."""
    answered: dict[str, Any] = {}
    statuses: Counter[str] = Counter()
    sound = True
    rounds, killed = max(1, service_kills), 0
    for number in range(rounds):
        steady = Load(service, RATE)
        share = worker_kills // rounds
        length = max(5.0, 4.0 * share)  # a new worker needs seconds to be warm
        thread = threading.Thread(
            target=steady.run, args=(length, 1_000_000 + 10_000 * number)
        )
        thread.start()
        for _ in range(share):
            time.sleep(random.uniform(2.0, 6.0))
            alive = workers_of(service)
            if alive:
                os.kill(random.choice(alive), signal.SIGKILL)
                killed += 1
        if number < service_kills:
            service.kill()
            with sqlite3.connect(folder / "data" / "clusterfirst.sqlite") as db:
                row = db.execute("PRAGMA integrity_check").fetchone()
                sound = sound and row == ("ok",)
        thread.join()
        answered.update(steady.answered)
        statuses += steady.statuses
        if number < service_kills:
            again = Service(folder / "data", "--workers", "2", port=service.port).wait()
            service.process, service.client = again.process, again.client
    service.wait()
    lost = sum(
        service.client.get(f"/v1/plans/{plan}").json().get("routes") != routes
        for plan, routes in answered.items()
    )
    return {
        "worker_kills": killed,
        "service_kills": service_kills,
        "answers": dict(statuses),
        "answered_plans": len(answered),
        "lost": lost,
        "database_sound": sound,
    }


# Frames while the mouse drags the map, and how long one drawing takes.
WATCH = """() => { const frames = []; let last = performance.now();
  globalThis.frames = frames;
  const tick = (now) => { frames.push(now - last); last = now;
    if (frames.length < 4000) requestAnimationFrame(tick); };
  requestAnimationFrame(tick); }"""
WEIGHT = """() => performance.getEntries()
  .filter((e) => !e.name.includes("/v1/"))
  .reduce((sum, e) => sum + (e.decodedBodySize || 0), 0)"""
EMPTY = """() => { const { map, points } = clusterfirst.map;
  for (let x = 60; x < 800; x += 9) for (let y = 60; y < 600; y += 9)
    if (!points.some((p) => map.layerPointToContainerPoint(p)
        .distanceTo([x, y]) < 15)) return [x, y + 52]; }"""
DRAW = """() => { const { layer } = clusterfirst.map, times = [];
  for (let i = 0; i < 15; i++) { const begin = performance.now();
    layer.clear(); layer.draw(); times.push(performance.now() - begin); }
  return times.sort((a, b) => a - b)[7]; }"""


def page(service: Service) -> dict[str, Any]:
    """First paint, weight, and frames while 2,000 stops are panned."""
    sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "browser"))
    from playwright.sync_api import sync_playwright
    from test_fluency import longest_of_acts

    body = {"instance": random_day(2000, 7), "options": {"time_limit": 3}}
    plan = service.client.post(
        "/v1/plans", json=body, headers={"Prefer": "wait=50"}
    ).json()
    flags = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path="/usr/bin/chromium", args=flags)
        tab = browser.new_page(viewport={"width": 1280, "height": 800})
        tab.goto(f"http://127.0.0.1:{service.port}/")
        tab.wait_for_selector("#demo")
        paint = tab.evaluate(
            "performance.getEntriesByName('first-contentful-paint')[0].startTime"
        )
        whole = tab.evaluate(WEIGHT)
        tab.goto(f"http://127.0.0.1:{service.port}/#{plan['id']}")
        tab.reload()
        tab.wait_for_selector(".vehicle")
        drawing = tab.evaluate(DRAW)
        tab.mouse.move(*tab.evaluate(EMPTY))
        tab.mouse.down()
        tab.evaluate(WATCH)
        for step in range(120):
            tab.mouse.move(200 + 3 * step, 200 + 40 * (step % 9) / 9)
        assert tab.evaluate("clusterfirst.map.dragged") is None  # the map, not a stop
        frames = sorted(tab.evaluate("frames"))
        tab.mouse.up()
        tab = browser.new_page(viewport={"width": 1280, "height": 800})
        tab.goto(f"http://127.0.0.1:{service.port}/")
        acts = longest_of_acts(browser, tab, service)
        browser.close()
    return {
        "first_paint_ms": round(paint),
        "weight_kb": round(whole / 1000),
        "draw_2000_stops_ms": round(drawing, 1),
        "pan_2000_stops_p50_ms": round(statistics.median(frames), 1),
        "pan_2000_stops_p95_ms": round(percentile(frames, 0.95), 1),
        "longest_task_ms": {act: round(spent, 1) for act, spent in acts.items()},
    }


def main() -> None:
    """Run the parts that were asked for and print a line for each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=3600.0)
    parser.add_argument("--worker-kills", type=int, default=500)
    parser.add_argument("--service-kills", type=int, default=20)
    parser.add_argument("--only", nargs="+", choices=PARTS, default=PARTS)
    parser.add_argument("--store", action="store_true")
    given = parser.parse_args()
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's & ignores it
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        service = Service(folder / "data", "--workers", "2").wait()
        try:
            for part in given.only:
                steps = {
                    "overhead": lambda: overhead(service),
                    "first": lambda: first(service),
                    "load": lambda: load(service, given.seconds),
                    "overload": lambda: overload(service),
                    "kills": lambda: kills(
                        folder, service, given.worker_kills, given.service_kills
                    ),
                    "page": lambda: page(service),
                }
                figures = steps[part]()
                figures["load_average"] = round(os.getloadavg()[0], 1)
                figures["date"] = time.strftime("%Y-%m-%d")
                found[part] = figures
                print(part, json.dumps(figures), flush=True)
        finally:
            service.close()
    if given.store:
        known = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
        RESULTS.write_text(json.dumps(known | found, indent=1) + "\n")


if __name__ == "__main__":
    main()
