"""Every TABLE by its name on the command line."""

from __future__ import annotations

from collections.abc import Callable

from clusterfirst.paper import grids
from clusterfirst.paper.desk import Desk
from clusterfirst.paper.histograms import histogram
from clusterfirst.paper.mip_gaps import mip_gap
from clusterfirst.paper.page import Page
from clusterfirst.paper.pictures import pictures
from clusterfirst.paper.plans import plan

TABLES: dict[str, Callable[[Desk], Page]] = {
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
