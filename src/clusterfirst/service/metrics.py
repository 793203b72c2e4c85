"""`/metrics`: what is going on, in Prometheus' text format."""

from __future__ import annotations

from clusterfirst.service.desk import Desk
from clusterfirst.service.guard import Guard


def metrics_text(desk: Desk, guard: Guard) -> str:
    """Counters and gauges, each with a line that says what it counts."""
    lines: list[str] = []

    def metric(name: str, kind: str, words: str, values: dict[str, float]) -> None:
        lines.append(f"# HELP clusterfirst_{name} {words}")
        lines.append(f"# TYPE clusterfirst_{name} {kind}")
        lines.extend(f"clusterfirst_{name}{label} {v:g}" for label, v in values.items())

    ended = {s: desk.counts[s] for s in ("done", "stopped", "failed")}
    metric(
        "plans_total",
        "counter",
        "Plans that ended, by how.",
        {f'{{status="{status}"}}': count for status, count in ended.items()},
    )
    metric("plans_waiting", "gauge", "Plans in the queue.", {"": desk.waiting})
    running = len(desk.live) - desk.waiting
    metric("plans_running", "gauge", "Plans with a worker.", {"": running})
    metric("workers", "gauge", "Workers that are warm.", {"": desk.warm})
    restarts = desk.counts["worker_restarts"]
    metric("worker_restarts_total", "counter", "Workers that died.", {"": restarts})
    metric(
        "plan_seconds_total",
        "counter",
        "Seconds that workers spent on plans.",
        {"": desk.busy_seconds},
    )
    metric(
        "requests_total",
        "counter",
        "Answers to requests, by status.",
        {f'{{code="{code}"}}': n for code, n in sorted(guard.answered.items())},
    )
    metric(
        "request_seconds_total",
        "counter",
        "Seconds until answers began.",
        {"": guard.seconds},
    )
    return "\n".join(lines) + "\n"
