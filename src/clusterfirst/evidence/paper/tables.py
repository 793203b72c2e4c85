"""Every TABLE by its name on the command line."""

from __future__ import annotations

from collections.abc import Callable

from clusterfirst.evidence.paper import grids
from clusterfirst.evidence.paper.histograms import histogram
from clusterfirst.evidence.paper.mip_gaps import mip_gap
from clusterfirst.evidence.paper.page import Page
from clusterfirst.evidence.paper.pictures import pictures
from clusterfirst.evidence.paper.plans import plan
from clusterfirst.evidence.paper.runs import Runs

TABLES: dict[str, Callable[[Runs], Page]] = {
    "main-a": grids.main_a,
    "main-b": grids.main_b,
    "sizes": grids.sizes,
    "one-layer": grids.one_layer,
    "ablation": grids.ablation,
    "fleet": grids.fleet,
    "sweep": grids.sweep,
    "plan": plan,
    "mip-gap": mip_gap,
    "histogram": histogram,
    "pictures": pictures,
}
