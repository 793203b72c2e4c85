"""Train a tiny model in a folder; the kill tests start this as a process.

Arguments: folder, steps, then `name=value` of: save (minutes), pause (seconds spent
inside each save, so that a kill hits one), minutes, seed.
"""

from __future__ import annotations

import sys
import time
from dataclasses import replace
from pathlib import Path

import torch

from clusterfirst.files import verified_folder
from clusterfirst.learning.labels.pool import LabelPool
from clusterfirst.learning.training import run as training_run
from clusterfirst.learning.training.batches import BatchSettings
from clusterfirst.learning.training.loop import TrainConfig
from clusterfirst.learning.training.run import RunOptions, TrainData, train
from networks import RELATIVE, angular_label

CONFIG = TrainConfig(
    model=replace(RELATIVE, dropout=0.1, seed_layers=1, cluster_layers=1),
    steps=16,
    batches=BatchSettings(tokens=120, least_customers=8, own_seeds=0.3),
    average="swa",
    optimiser="adamw",
)


def tiny_pool() -> LabelPool:
    """Twenty labels of the small city."""
    return LabelPool.of_labels([angular_label(20 + i % 5, i) for i in range(20)])


def slow_writes(pause: float) -> None:
    """Make each file of a checkpoint take a while."""
    write = verified_folder.write_bytes

    def slowly(path: Path, data: bytes) -> None:
        time.sleep(pause)
        write(path, data)

    verified_folder.write_bytes = slowly


def main() -> None:
    """Run as told by the arguments."""
    torch.set_num_threads(1)
    folder, steps = Path(sys.argv[1]), int(sys.argv[2])
    given = dict(word.split("=") for word in sys.argv[3:])
    slow_writes(float(given.get("pause", 0)))
    minutes = float(given["minutes"]) if "minutes" in given else None
    processes = int(given.get("processes", 1))
    options = RunOptions(processes, minutes, float(given.get("save", 5)))
    config = replace(CONFIG, steps=steps, seed=int(given.get("seed", 0)))
    training_run.REPORT_SECONDS = 0.0

    def report(now: training_run.Report) -> None:
        print(now.step, flush=True)

    ending = train(config, TrainData(tiny_pool()), folder, options, report)
    print(ending.name, flush=True)


if __name__ == "__main__":
    main()
