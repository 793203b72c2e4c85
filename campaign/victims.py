"""One small job in a folder, to be killed: python campaign/victims.py WHAT FOLDER.

The jobs are those of the commands (`label`, `pretrain`, `train`, `learn`, `bench`,
`solve --out`), at sizes that end within seconds. Run again they go on.
"""

from __future__ import annotations

import signal
import sys
from dataclasses import replace
from pathlib import Path

from clusterfirst.problem.errors import ClusterfirstError

BEGUN = "begun"
ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))


def label(folder: Path) -> int:
    """Twenty labels of the world by HGS, two workers, counted iterations."""
    from clusterfirst.cli import main

    words = "label world --customers 12 --count 20 --iterations 60 --workers 2 --seed 6"
    return main([*words.split(), "--out", str(folder)])


def pretrain(folder: Path) -> int:
    """A table of Psi for a small city, a checkpoint every 25 epochs."""
    import torch

    from clusterfirst import sample_city
    from clusterfirst.learning.training.pretraining import pretrain as run
    from test_embed import TINY

    torch.set_num_threads(1)
    run(sample_city(80, seed=6), replace(TINY, epochs=60, cooldown=20), folder)
    return 0


def train(folder: Path) -> int:
    """Twelve steps of a tiny model, a checkpoint after each."""
    import torch

    from clusterfirst.learning.training.run import RunOptions, TrainData
    from clusterfirst.learning.training.run import train as run
    from train_tiny import CONFIG, tiny_pool

    torch.set_num_threads(1)
    config = replace(CONFIG, steps=12)
    run(config, TrainData(tiny_pool()), folder, RunOptions(1, None, 0.0))
    return 0


def learn(folder: Path) -> int:
    """All stages of learning a city, seconds each."""
    from clusterfirst.cities.history import History
    from clusterfirst.learning.training import learning, pretraining
    from clusterfirst.learning.training import run as running
    from networks import small_city
    from test_learning import TINY

    learning.LEAST_LABELS, learning.LABELLING = 6, 0.25
    pretraining._draw = running.draw_curves = lambda *given: None  # noqa: SLF001
    learning.learn(History(small_city()), TINY, folder)
    return 0


def bench(folder: Path) -> int:
    """Two methods on three days, 0.1 s each."""
    from clusterfirst.cli import main

    words = "bench --city bundled --customers 20 --count 3 --methods sweep,savings"
    words += " --seconds 0.1 --references hgs:0.1"
    return main([*words.split(), "--out", str(folder)])


def solve(folder: Path) -> int:
    """One day, its routes in three formats, by counted iterations."""
    from clusterfirst.cli import main

    folder.mkdir(exist_ok=True)
    names = ("a.sol", "a.json", "a.csv")
    outs = [word for name in names for word in ("--out", str(folder / name))]
    words = ["solve", str(folder.parent / "day.json"), "--iterations", "20"]
    return main([*words, "--overwrite", *outs])


JOBS = {job.__name__: job for job in (label, pretrain, train, learn, bench, solve)}

if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # as the command does
    try:
        Path(sys.argv[2]).with_name(BEGUN).touch()  # from here on a kill is answered
        sys.exit(JOBS[sys.argv[1]](Path(sys.argv[2])))
    except KeyboardInterrupt:
        sys.exit(130)
    except ClusterfirstError as error:  # as the command says it
        sys.exit(f"clusterfirst: {error}")
