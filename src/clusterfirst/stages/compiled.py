"""What the compiled kernels share: the decorators and random numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numpy as np
from numba import njit
from numba.core.types import unliteral

from clusterfirst.stages.kernel_cache import enable_cache

OPTIONS: dict[str, Any] = {
    "nogil": True,
    "error_model": "numpy",
    "_nrt": False,
    "no_cfunc_wrapper": True,
}
Function = TypeVar("Function", bound=Callable[..., Any])


def kernel(function: Function) -> Function:
    """Compile for calls from Python: cached on disk, without the interpreter lock.

    Kernels allocate nothing, so reference counting is switched off: counting every
    field of every tuple they pass around took 40 % of the time, and threads fight
    over the counters.
    """
    return compiled()(function)


def inner(function: Function) -> Function:
    """Compile for calls from other kernels only.

    The door for Python takes a third of the time of compilation, and most kernels
    are never called from there.
    """
    return compiled(no_cpython_wrapper=True)(function)


def inlined(function: Function) -> Function:
    """Compile into the kernels that call it every few nanoseconds.

    A tuple of arrays is some hundred machine words, which a call would push.
    """
    return compiled(no_cpython_wrapper=True, forceinline=True)(function)


def compiled(**more: Any) -> Callable[[Function], Function]:
    """Compile with these options of numba too, `fastmath` for example."""

    def compiler(function: Function) -> Function:
        dispatcher = njit(**OPTIONS, **more)(function)
        found = dispatcher.get_call_template

        def get_call_template(args: Any, kws: Any) -> Any:
            # A kernel that is called with a constant, or with a variable that is
            # one for a moment of type inference, would be compiled again for it.
            return found(tuple(map(unliteral, args)), kws)

        dispatcher.get_call_template = get_call_template
        if more.get("no_cpython_wrapper"):
            _shut_door(dispatcher)
        enable_cache(dispatcher)
        return cast(Function, dispatcher)

    return compiler


def _shut_door(dispatcher: Any) -> None:
    """Let Python not jump to where numba has compiled no door for it."""

    def add_overload(result: Any) -> None:
        dispatcher.overloads[tuple(result.signature.args)] = result

    def refuse(*_: Any, **__: Any) -> None:
        raise TypeError(f"{dispatcher.__name__} is for kernels; Python cannot call it")

    dispatcher.add_overload = add_overload
    dispatcher._compile_for_args = refuse  # noqa: SLF001  # numba has no other way


@inlined
def signed(value: Any) -> int:
    """Return a whole number of any kind as int64: kernels have one kind only."""
    return np.int64(value)  # type: ignore[return-value]


@inlined
def random_bits(state: Any) -> Any:
    """Return 64 random bits by splitmix64; `state` holds one uint64."""
    state[0] += np.uint64(0x9E3779B97F4A7C15)
    z = state[0]
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


@inner
def random(state: Any) -> float:
    """Return a uniform number in [0, 1)."""
    return float(random_bits(state) >> np.uint64(11)) * (1.0 / 9007199254740992.0)
