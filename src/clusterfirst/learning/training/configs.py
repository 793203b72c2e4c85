"""Named training runs: the paper's as printed, and ours.

The names are those of `model.CONFIGS`. What the paper leaves open (the contrastive
temperature, m, the schedule of the rate) is listed in docs/reading-the-paper.md.
"""

from __future__ import annotations

from dataclasses import replace

from clusterfirst.learning.training.batches import BatchSettings
from clusterfirst.learning.training.loop import TrainConfig
from clusterfirst.learning.training.losses import LossSettings
from clusterfirst.networks.config import CONFIGS

PAPER_INSTANCES = 1_000_000  # of N = 100 (Section 3)
PAPER_BATCH = 256
PAPER_EPOCHS = 30

# Appendix E. A constant rate: the text argues for a sustained high one and names no
# schedule. Whole instances only, and no augmentation.
_PAPER = TrainConfig(
    model=CONFIGS["paper"],
    steps=PAPER_EPOCHS * -(-PAPER_INSTANCES // PAPER_BATCH),
    losses=LossSettings(transport="unrolled", contrast_weight=0.05 * 100),
    batches=BatchSettings(tokens=PAPER_BATCH * 101, part_share=0.0, seed_pool=2),
    learning_rate=0.006,
    warm_up=0.0,
    decay=0.0,
    average="swa",
    epoch=-(-PAPER_INSTANCES // PAPER_BATCH),
)
# Steps are a default for two cores; `clusterfirst train` takes another number.
_OURS = TrainConfig(model=CONFIGS["city-one-layer"], steps=20_000)
# A quarter of the batches comes from large labels, so that routes far from each other
# are seen together. Muon needs 0.7 of AdamW's steps (log/).
_RELATIVE = replace(
    _OURS,
    model=CONFIGS["general"],
    batches=BatchSettings(
        tokens=3232,
        part_share=0.3,
        large_share=0.25,
        own_seeds=0.2,
        centre_seeds=0.5,
    ),
    decay=0.4,
    optimiser="muon",
)

TRAINING: dict[str, TrainConfig] = {
    "paper": _PAPER,
    "paper-standard": replace(_PAPER, model=CONFIGS["paper-standard"]),
    "paper-one-layer": replace(_PAPER, model=CONFIGS["paper-one-layer"]),
    "city": replace(_RELATIVE, model=CONFIGS["city"]),
    "city-one-layer": _OURS,
    "general": _RELATIVE,
}
