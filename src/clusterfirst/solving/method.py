"""The methods by name: what to run, and what kind of thing it is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from clusterfirst.stages.search_state import SearchState

OUTSIDE = "cmd:"  # an outside program; its words follow


class Kind(Enum):
    """What a method is, and so how it is called."""

    SCORES = "seeds and costs, decoded by the shared stages"  # run(state, options)
    ROUTES = "routes, built by hand"  # run(state)
    PEER = "somebody else's solver, run as it is"  # run(state, name)


@dataclass(frozen=True)
class Method:
    """One entry of the table; the function is imported when it is first called."""

    run: str  # module:function
    kind: Kind

    def load(self) -> Callable[..., Any]:
        """Import the function."""
        module, function = self.run.split(":")
        loaded: Callable[..., Any] = getattr(import_module(module), function)
        return loaded


_PEER = Method("clusterfirst.learning.experts.peers:offer_peer", Kind.PEER)


METHODS = {
    "fisher-jaikumar": Method(
        "clusterfirst.solving.decoding:fisher_jaikumar", Kind.SCORES
    ),
    "sweep": Method("clusterfirst.stages.classical.sweep:sweep", Kind.ROUTES),
    "petal": Method("clusterfirst.stages.classical.petal:petal", Kind.ROUTES),
    "savings": Method("clusterfirst.stages.classical.savings:savings", Kind.ROUTES),
    "neural": Method("clusterfirst.solving.neural:neural", Kind.SCORES),
    "hgs": _PEER,
    "pyvrp": _PEER,
    "ortools": _PEER,
    "vroom": _PEER,
    OUTSIDE: _PEER,
}


def find_method(name: str) -> Method | None:
    """The entry of a name, or of any `cmd:PROGRAM ...`; None if there is none."""
    return METHODS.get(OUTSIDE if name.startswith(OUTSIDE) else name)


def run_method(state: SearchState, name: str, options: object = None) -> None:
    """Let a method offer its routes to a search; `options` are those of `solve`."""
    method = find_method(name)
    assert method is not None  # the options were checked
    run = method.load()
    if method.kind is Kind.SCORES:
        run(state, options)
    elif method.kind is Kind.PEER:
        run(state, name)
    else:
        run(state)
