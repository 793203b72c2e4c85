"""A genetic search of one thread: the arrays for it, and routes in and out."""

from __future__ import annotations

import math

import numpy as np

from clusterfirst.problem.instance import Instance
from clusterfirst.stages.routes import Routes
from clusterfirst.stages.search.genetic.evolution import evolve, genetic_for
from clusterfirst.stages.search.linked import Data
from clusterfirst.stages.search.regions import make_region, whole_data
from clusterfirst.stages.search.schedule import PolishSettings

NOBODY = np.zeros(0, dtype=np.int64)
ROOM, MORE_ROOM = 1.3, 3  # routes that children may have, for each that loads need


class Breeding:
    """A colony that adopts routes and breeds; its best are at hand at any time."""

    def __init__(
        self,
        instance: Instance,
        whole: Data,
        routes: Routes,
        settings: PolishSettings,
        number: int,
    ) -> None:
        self.instance = instance
        loads = float(instance.demand_units.sum()) / instance.capacity_units
        slots = max(len(routes), math.ceil(ROOM * loads) + MORE_ROOM)
        if instance.vehicles is not None:
            slots = min(slots, instance.vehicles)
        seed = settings.seed * settings.threads + number
        region = make_region(whole, routes, slots, seed)
        rows = region.members
        self.rows, self.data = rows, region.data
        self.number = np.argsort(rows)
        legs = instance.lengths(rows[:, None], rows[None, :])
        points = instance.plane[rows] - instance.plane[0]
        self.state = genetic_for(
            region.data, region.tours, (legs, points), settings.founders, seed
        )

    def adopt(self, routes: Routes) -> None:
        """Make routes of somebody else a member."""
        evolve(self.data, self.state, self.number[routes.stops], routes.starts, 1)

    def breed(self, children: int) -> None:
        """Raise so many children."""
        evolve(self.data, self.state, NOBODY, NOBODY, children)

    @property
    def length(self) -> float:
        """Of the best routes within the capacity; inf before there are some."""
        return float(self.state.nursery.best_length[0])

    @property
    def best(self) -> Routes:
        """The best routes within the capacity, in rows of the instance."""
        nursery = self.state.nursery
        starts = np.unique(nursery.best_starts)
        return Routes(self.rows[nursery.best], starts)


def warm_up(instance: Instance) -> None:
    """Compile the kernels, or load them from numba's cache, before they are needed."""
    settings = PolishSettings(founders=1)
    rows = np.arange(1, instance.num_customers + 1)
    alone = Routes(rows, np.append(rows - 1, rows[-1]))
    data = whole_data(instance, settings.neighbours)
    Breeding(instance, data, alone, settings, 0).breed(2)
