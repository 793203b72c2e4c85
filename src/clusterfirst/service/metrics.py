"""`/metrics`: what is going on, in Prometheus' text format."""

from __future__ import annotations

from clusterfirst.service.guard import Guard
from clusterfirst.service.worker_pool import WorkerPool


def metrics_text(pool: WorkerPool, guard: Guard) -> str:
    """Counters and gauges, each with a line that says what it counts."""
    lines: list[str] = []

    def metric(name: str, kind: str, words: str, values: dict[str, float]) -> None:
        lines.append(f"# HELP clusterfirst_{name} {words}")
        lines.append(f"# TYPE clusterfirst_{name} {kind}")
        lines.extend(f"clusterfirst_{name}{label} {v:g}" for label, v in values.items())

    ended = {s: pool.counts[s] for s in ("done", "stopped", "failed")}
    metric(
        "plans_total",
        "counter",
        "Plans that ended, by how.",
        {f'{{status="{status}"}}': count for status, count in ended.items()},
    )
    metric("plans_waiting", "gauge", "Plans in the queue.", {"": pool.waiting})
    running = len(pool.live) - pool.waiting
    metric("plans_running", "gauge", "Plans with a worker.", {"": running})
    metric("workers", "gauge", "Workers that are warm.", {"": pool.warm})
    restarts = pool.counts["worker_restarts"]
    metric("worker_restarts_total", "counter", "Workers that died.", {"": restarts})
    metric(
        "plan_seconds_total",
        "counter",
        "Seconds that workers spent on plans.",
        {"": pool.busy_seconds},
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
