"""What the tests of the service share: one that runs, and a day that takes a while."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import numpy as np

START = 300.0  # seconds for a machine that has to compile first


def random_day(customers: int, seed: int = 0) -> dict[str, Any]:
    """An instance document on the globe."""
    draw = np.random.default_rng(seed)
    points = np.column_stack(
        [3.7 + 0.1 * draw.random(customers + 1), 51 + 0.1 * draw.random(customers + 1)]
    )
    places = [
        {"id": f"c{i}", "lon": float(lon), "lat": float(lat)}
        for i, (lon, lat) in enumerate(points)
    ]
    for place, demand in zip(places[1:], draw.integers(1, 10, customers), strict=True):
        place["demand"] = int(demand)
    return {
        "name": f"day {seed}",
        "capacity": 50,
        "depot": places[0],
        "customers": places[1:],
    }


class Service:
    """A service in a process of its own, as users start it."""

    def __init__(self, data: Path, *args: str, port: int = 0) -> None:
        with socket.socket() as free:
            free.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            free.bind(("127.0.0.1", port))
            self.port = free.getsockname()[1]
        command = [sys.executable, "-m", "clusterfirst", "serve", "--data", str(data)]
        command += ["--port", str(self.port), "--workers", "1"]
        command += args  # the last word wins
        self.data = data
        self.log = data.with_suffix(".log").open("ab")
        self.process = subprocess.Popen(command, stderr=self.log, stdout=self.log)
        self.client = httpx.Client(base_url=f"http://127.0.0.1:{self.port}", timeout=60)

    def wait(self) -> Service:
        """Until the workers are warm."""
        end = time.monotonic() + START
        while time.monotonic() < end:
            assert self.process.poll() is None, "the service ended"
            try:
                if self.client.get("/ready").status_code == 200:
                    return self
            except httpx.TransportError:
                pass
            time.sleep(0.05)
        raise AssertionError("the service did not get ready")

    def workers(self) -> list[int]:
        """The process ids of its workers."""
        children = Path(f"/proc/{self.process.pid}/task")
        return [
            int(pid)
            for task in children.iterdir()
            for pid in (task / "children").read_text().split()
        ]

    def worker(self) -> int:
        """The process id of its only worker."""
        (worker,) = self.workers()
        return worker

    def kill(self) -> None:
        """As the kernel would, out of memory."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def close(self, how: int = signal.SIGTERM) -> None:
        """As systemd or (SIGINT) a person would; anything but 0 is a failure."""
        self.client.close()
        self.log.close()
        if self.process.poll() is None:
            self.process.send_signal(how)
            code = self.process.wait(60)
            assert code == 0, f"{code}: {self.data.with_suffix('.log').read_text()}"


@contextmanager
def running(data: Path, *args: str, end: int = signal.SIGTERM) -> Iterator[Service]:
    """A service that is warm, until a signal tells it to end."""
    service = Service(data, *args)
    try:
        yield service.wait()
    finally:
        service.close(end)


def ended(pid: int) -> bool:
    """Whether a process is gone, within a second."""
    for _ in range(100):
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
        if state == "Z":
            return True
        time.sleep(0.01)
    return False
