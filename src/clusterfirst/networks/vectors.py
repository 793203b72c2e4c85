"""Vectors of float32 as values inside kernels: what the compiler does not find itself.

Attention along lists is made of short sums over rows that lie anywhere. Left to itself
the compiler enters a loop of vectors for each of them and leaves it again, which takes
longer than the sums (log/). These are the vectors of LLVM, which turns them into what
a processor has.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic, models, register_model

FLOAT = ir.FloatType()
FUSED = ("contract",)  # a product and a sum may be one instruction


def built(function: Callable[..., Any]) -> Any:
    """Let kernels call what builds their code; numba's own decorator has no types."""
    return intrinsic(function)


class VectorType(types.Type):
    """So many float32 in one register, or in a few."""

    def __init__(self, lanes: int) -> None:
        self.lanes = lanes
        super().__init__(name=f"float32 x {lanes}")


@register_model(VectorType)
class _VectorModel(models.PrimitiveModel):
    def __init__(self, manager: Any, kind: VectorType) -> None:
        super().__init__(  # type: ignore[no-untyped-call]
            manager, kind, ir.VectorType(FLOAT, kind.lanes)
        )


def _place(context: Any, builder: Any, kind: Any, array: Any, at: Any) -> Any:
    """Pointer to the vector that begins at element `at` of an array in one piece."""
    data = context.make_array(kind.args[0])(context, builder, array).data
    wide = context.get_value_type(VectorType(kind.args[2].literal_value))
    return builder.bitcast(builder.gep(data, [at]), wide.as_pointer())


@built
def load(_: Any, array: Any, at: Any, lanes: Any) -> Any:
    """Return elements at .. at + lanes - 1 of an array, counted in one piece."""

    def generate(context: Any, builder: Any, kind: Any, given: Any) -> Any:
        place = _place(context, builder, kind, given[0], given[1])
        return builder.load(place, align=4)

    if not isinstance(lanes, types.IntegerLiteral):
        return None
    return VectorType(lanes.literal_value)(array, types.int64, lanes), generate


@built
def store(_: Any, array: Any, at: Any, lanes: Any, vector: Any) -> Any:
    """Write a vector to elements at .. of an array."""

    def generate(context: Any, builder: Any, kind: Any, given: Any) -> Any:
        place = _place(context, builder, kind, given[0], given[1])
        builder.store(given[3], place, align=4)
        return context.get_dummy_value()

    if not isinstance(lanes, types.IntegerLiteral):
        return None
    return types.void(array, types.int64, lanes, vector), generate


@built
def zeros(_: Any, lanes: Any) -> Any:
    """Return a vector of zeros."""

    def generate(context: Any, builder: Any, kind: Any, given: Any) -> Any:
        return ir.Constant(context.get_value_type(kind.return_type), None)

    if not isinstance(lanes, types.IntegerLiteral):
        return None
    return VectorType(lanes.literal_value)(lanes), generate


@built
def times_plus(_: Any, a: Any, b: Any, c: Any) -> Any:
    """Return a b + c, element by element; a may be one number."""

    def generate(context: Any, builder: Any, kind: Any, given: Any) -> Any:
        left, right, more = given
        wide = context.get_value_type(kind.return_type)
        if not isinstance(kind.args[0], VectorType):
            one = builder.insert_element(
                ir.Constant(wide, ir.Undefined), left, ir.Constant(ir.IntType(32), 0)
            )
            lane = ir.Constant(ir.VectorType(ir.IntType(32), wide.count), None)
            left = builder.shuffle_vector(one, ir.Constant(wide, ir.Undefined), lane)
        product = builder.fmul(left, right, flags=FUSED)
        return builder.fadd(product, more, flags=FUSED)

    return c(a, b, c), generate


@built
def folded(_: Any, vector: Any, lanes: Any) -> Any:
    """Return the vector plus itself turned by so many lanes."""

    def generate(context: Any, builder: Any, kind: Any, given: Any) -> Any:
        count, step = kind.args[0].lanes, kind.args[1].literal_value
        order = [(lane + step) % count for lane in range(count)]
        lane = ir.Constant(ir.VectorType(ir.IntType(32), count), order)
        turned = builder.shuffle_vector(given[0], given[0], lane)
        return builder.fadd(given[0], turned)

    if not isinstance(lanes, types.IntegerLiteral):
        return None
    return vector(vector, lanes), generate


@built
def larger(_: Any, a: Any, b: Any) -> Any:
    """Return the larger of two vectors, element by element."""

    def generate(context: Any, builder: Any, kind: Any, given: Any) -> Any:
        return builder.select(builder.fcmp_ordered(">", *given), *given)

    return a(a, b), generate


def _by_element(name: str) -> Any:
    """What LLVM does with two vectors, element by element."""

    @built
    def both(_: Any, a: Any, b: Any) -> Any:
        def generate(context: Any, builder: Any, kind: Any, given: Any) -> Any:
            return getattr(builder, name)(*given)

        return a(a, b), generate

    return both


plus, minus, over = _by_element("fadd"), _by_element("fsub"), _by_element("fdiv")
