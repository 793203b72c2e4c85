"""Vectors of float32 as values in kernels: those of LLVM, of any length.

Short sums over rows that lie anywhere: left to itself the compiler enters a loop of
vectors for each of them and leaves it again, which takes longer than the sums (log/).
LLVM turns these into what a processor has.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import binding, ir
from numba.core import types
from numba.extending import intrinsic, models, register_model

FLOAT = ir.FloatType()
FUSED = ("contract",)  # a product and a sum may be one instruction
LANES = 16  # of a vector: every head has some of them
# Sums that a processor holds at a time: `product` takes so many rows and vectors.
_WIDE = binding.get_host_cpu_features().get("avx512f", False)
ROWS, VECTORS = (12, 2) if _WIDE else (6, 1)
PANEL = VECTORS * LANES  # columns


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


def _constant(number: float) -> Any:
    """What makes vectors of one number."""

    @built
    def same(_: Any, lanes: Any) -> Any:
        def generate(context: Any, builder: Any, kind: Any, given: Any) -> Any:
            wide = context.get_value_type(kind.return_type)
            return ir.Constant(wide, [ir.Constant(FLOAT, number)] * wide.count)

        if not isinstance(lanes, types.IntegerLiteral):
            return None
        return VectorType(lanes.literal_value)(lanes), generate

    return same


zeros, ones = _constant(0.0), _constant(1.0)


@built
def times_plus(_: Any, a: Any, b: Any, c: Any) -> Any:
    """Return a b + c, element by element; a may be one number."""

    def generate(context: Any, builder: Any, kind: Any, given: Any) -> Any:
        left, right, more = given
        wide = context.get_value_type(kind.return_type)
        if not isinstance(kind.args[0], VectorType):
            left = _everywhere(builder, left, wide)
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


plus, minus = _by_element("fadd"), _by_element("fsub")
times, over = _by_element("fmul"), _by_element("fdiv")


@built
def tile(_: Any, arrays: Any, places: Any, steps: Any) -> Any:
    """Write ROWS x PANEL numbers of a product, summed up in registers.

    out[to + r width + c] = sum over k < depth of x[at + r row + k column] times
    panels[first + k PANEL + c], where `arrays` is (x, panels, out), `places` (at,
    first, to) and `steps` (row, column, depth, width); all count elements of arrays
    in one piece. Each number is added up in one way, wherever its row stands.
    """

    def generate(context: Any, builder: Any, kind: Any, given: Any) -> Any:
        data = []
        for i, each in enumerate(kind.args[0]):
            array = builder.extract_value(given[0], i)
            data.append(context.make_array(each)(context, builder, array).data)
        at, first, to = (builder.extract_value(given[1], i) for i in range(3))
        steps = [builder.extract_value(given[2], i) for i in range(4)]
        rows = [_row(builder, data[0], at, r, steps[0]) for r in range(ROWS)]
        sums = _summed(builder, rows, builder.gep(data[1], [first]), steps)
        for r in range(ROWS):
            into = _row(builder, data[2], to, r, steps[3])
            for v in range(VECTORS):
                builder.store(sums[r * VECTORS + v], _vector_at(builder, into, v), 4)
        return context.get_dummy_value()

    return types.void(arrays, places, steps), generate


def _row(builder: Any, data: Any, at: Any, number: int, step: Any) -> Any:
    """Pointer to a row that begins so many steps after `at`."""
    far = builder.mul(ir.Constant(step.type, number), step)
    return builder.gep(data, [builder.add(at, far)])


def _vector_at(builder: Any, row: Any, number: int) -> Any:
    """Pointer to a vector of a row."""
    place = builder.gep(row, [ir.Constant(ir.IntType(64), number * LANES)])
    return builder.bitcast(place, ir.VectorType(FLOAT, LANES).as_pointer())


def _summed(builder: Any, rows: list[Any], panel: Any, steps: list[Any]) -> list[Any]:
    """The loop over k of `tile`: its sums, one vector after the other of each row."""
    _, column, depth, _ = steps
    wide, whole = ir.VectorType(FLOAT, LANES), column.type
    before, loop = builder.block, builder.append_basic_block("products")
    end = builder.append_basic_block("summed")
    builder.branch(loop)
    builder.position_at_end(loop)
    k = builder.phi(whole)
    sums = [builder.phi(wide) for _ in range(ROWS * VECTORS)]
    here = builder.gep(panel, [builder.mul(k, ir.Constant(whole, PANEL))])
    columns = [
        builder.load(_vector_at(builder, here, v), align=4) for v in range(VECTORS)
    ]
    far = builder.mul(k, column)
    more = []
    for r, row in enumerate(rows):
        one = _everywhere(builder, builder.load(builder.gep(row, [far])), wide)
        for v in range(VECTORS):
            product = builder.fmul(one, columns[v], flags=FUSED)
            more.append(builder.fadd(product, sums[r * VECTORS + v], flags=FUSED))
    after = builder.add(k, ir.Constant(whole, 1))
    k.add_incoming(ir.Constant(whole, 0), before)
    k.add_incoming(after, loop)
    for old, new in zip(sums, more, strict=True):
        old.add_incoming(ir.Constant(wide, None), before)
        old.add_incoming(new, loop)
    builder.cbranch(builder.icmp_signed("<", after, depth), loop, end)
    builder.position_at_end(end)
    return more


def _everywhere(builder: Any, number: Any, wide: Any) -> Any:
    """A vector of one number."""
    nothing, lane = ir.Constant(wide, ir.Undefined), ir.IntType(32)
    one = builder.insert_element(nothing, number, ir.Constant(lane, 0))
    order = ir.Constant(ir.VectorType(lane, wide.count), None)
    return builder.shuffle_vector(one, nothing, order)
