"""Constraints on layouts, and kinds of memory, of values inside compiled functions.

XLA chooses the layouts of intermediate values. A constraint fixes one; it computes nothing, and a
constrained result of a compiled function has that layout.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

from weft import tree
from weft.arrays.array import to_layout
from weft.arrays.conversion import as_array
from weft.arrays.transfers import stored_layout
from weft.core import rules
from weft.core.access_pattern import Inner, Reads, elementwise_reads, full_read
from weft.core.jaxpr import Atom, Equation, Var
from weft.core.rules import AxisData, Dims, Values, Zero
from weft.core.types import ArrayType, type_of, user_value
from weft.errors import Fix, WeftTypeError, WeftValueError, api_boundary
from weft.ops.declare import linear_primitive
from weft.ops.structural.shape import transpose
from weft.runtime import client, stablehlo
from weft.runtime import xla_layouts as layouts
from weft.sharding import Layout

T = TypeVar("T")


@api_boundary
def with_layout_constraint(x: T, layouts: Any) -> T:
    """Returns a tree with its arrays in the given layouts.

    `layouts` is a tree prefix of `x` of Layouts, or of None (no constraint). In a compiled
    function, the value has that layout from here on, also as a result; outside, the array is copied
    into it. Inside a `shard_map` it is the layout of each device's block. Shapes, dtypes and values
    do not change. The derivative is constrained in the same way; under `vmap` the mapped dimension
    becomes the outermost one.

    Raises ShapeError for a layout of another rank than the array's, naming the leaf, WeftTypeError
    for values that are not layouts, and WeftValueError for tiles where devices have none.

    >>> import weft, weft.numpy as jnp
    >>> from weft.layout import Layout, with_layout_constraint
    >>> @weft.jit
    ... def f(x):
    ...     return with_layout_constraint(x.T * 2, Layout(major_to_minor=(1, 0)))
    >>> f(jnp.ones((2, 3))).format.layout
    Layout(major_to_minor=(1, 0))
    """
    leaves, structure = tree.flatten(x)
    found = tree.prefix_leaves(
        "layouts", layouts, structure, is_leaf=lambda x: x is None or isinstance(x, Layout)
    )
    paths = [tree.keystr(path) for path, _ in tree.leaves_with_path(x)]
    return structure.unflatten(
        [
            constrain_layout(user_value(leaf), layout, "with_layout_constraint", f"x{path}")
            for leaf, layout, path in zip(leaves, found, paths, strict=True)
        ]
    )


def constrain_layout(x: Any, layout: Layout | None, operation: str, what: str) -> Any:
    """Returns one array with a constraint (None: as it is); `what` names it in errors.

    Args:
        x: An array.
        layout: The layout that the compiler has to give it.
        operation: The operation's name in errors.
        what: What the array is called in errors.
    """
    if layout is None:
        return x
    if not isinstance(layout, Layout):
        raise no_layout(layout, operation, what, type_of(x).ndim)
    layout.check_rank(operation, what, type_of(x).shape)
    check_tiles(layout, operation)
    return layout_constraint_p.bind(x, layout=layout)


def check_tiles(layout: Layout, operation: str) -> None:
    """Raises WeftValueError for tiles on CPUs: XLA accepts but ignores them, so that an array would
    report a wrong layout."""
    if not layout.tiling or client.backend().platform != "cpu":
        return
    plain = Layout(layout.major_to_minor)
    message, wanted = f"{operation}: CPUs do not store arrays in tiles", "a layout without tiling"
    fix = Fix("tiling", f"pass weft.layout.{plain}", {"layout": plain})
    raise WeftValueError(message, operation=operation, got=f"{layout}", wanted=wanted, fix=fix)


def no_layout(given: Any, operation: str, what: str, ndim: int) -> WeftTypeError:
    """The error for an argument that is not a layout."""
    wanted: Any = getattr(given, "layout", None)  # of a Format
    if not isinstance(wanted, Layout):
        wanted = Layout(range(ndim))
    return WeftTypeError(
        f"{operation}: {what} is to have something that is no layout",
        got=f"{given!r:.200} of class {type(given).__name__}",
        wanted="a Layout, or None; the sharding of a Format goes to with_sharding_constraint, and "
        "Layout.AUTO to jit",
        fix=Fix("layout", f"pass weft.layout.{wanted}", {"layouts": wanted}),
    )


def constraint_equation(x: Atom, constrained: Var, layout: Layout) -> Equation:
    """Returns the equation that binds a value in a layout to another variable.

    Args:
        x: The variable that is read.
        constrained: The variable that is bound.
        layout: The layout that the compiler has to give it.
    """
    return Equation(layout_constraint_p, [x], {"layout": layout}, [constrained])


def row_major_entry(atoms: Sequence[Atom], layouts: Sequence[Any]) -> tuple[list[Atom], Any]:
    """Returns the operands of a loop, and the equations before it that make some row-major.

    Args:
        atoms: The operands: variables and literals.
        layouts: The layout that each is to have, or None.
    """
    entering, eqns = list(atoms), []
    for i, (x, layout) in enumerate(zip(atoms, layouts, strict=True)):
        if layout is not None and layout.is_row_major:
            var = Var(x.type)
            entering[i] = var
            eqns.append(constraint_equation(x, var, layout))
    return entering, eqns


# ---- rules ---------------------------------------------------------------------------------------


def layout_constraint_type(x: ArrayType, *, layout: Layout) -> ArrayType:
    layout.check_rank("with_layout_constraint", "x", x.shape)
    return x


def layout_constraint_transpose(cotangent: Any, x: Any, *, layout: Layout) -> list[Any]:
    if type(cotangent) is Zero:
        return [cotangent]
    return [layout_constraint_p.bind(cotangent, layout=layout)]


def layout_constraint_vmap(
    axis: AxisData, args: Values, dims: Dims, *, layout: Layout
) -> tuple[Any, int | None]:
    (x,), (dim,) = args, dims
    assert dim is not None
    order = (dim, *(i for i in range(type_of(x).ndim) if i != dim))
    how = Layout((0, *(i + 1 for i in layout.major_to_minor)), layout.tiling)
    return layout_constraint_p.bind(transpose(x, order), layout=how), 0


def layout_constraint_lower(context: Any, x: Any, *, layout: Layout) -> Any:
    order = stored_layout(layout, context.in_types[0]).major_to_minor
    module = context.module
    split = len(module.devices) > 1 and context.platform == "cpu"
    manual = module.manual is not None and module.manual.axes.issuperset(
        module.manual.mesh.axis_names
    )
    return layouts.layout_constraint(x, order, split and not manual and bool(order))


def layout_constraint_reads(eqn: Equation, demands: Sequence[Reads], inner: Inner) -> list[Reads]:
    """The whole operand is brought into the layout."""
    order = eqn.params["layout"].major_to_minor
    read = full_read(eqn.inputs[0].type)
    walk = sorted(read.walk, key=lambda step: order.index(step.dim))
    return [(read._replace(walk=tuple(walk)),)]


layout_constraint_p = linear_primitive(
    "layout_constraint",
    type_rule=layout_constraint_type,
    lower=layout_constraint_lower,
    transpose=layout_constraint_transpose,
    vmap=layout_constraint_vmap,
    reads=layout_constraint_reads,
    linear=True,
    flops="none",
)
rules.impl.register(layout_constraint_p, lambda x, *, layout: to_layout(as_array(x), layout))
rules.layout.register(layout_constraint_p, lambda params: (params["layout"],))


def in_memory_vmap(axis: AxisData, args: Values, dims: Any, *, kind: str, back: str) -> Any:
    return in_memory_p.bind(args[0], kind=kind, back=back), dims[0]


def in_memory_transpose(ct: Any, x: Any, *, kind: str, back: str) -> list[Any]:
    return [in_memory_p.bind(ct, kind=back, back=kind)]


def in_memory_type(x: ArrayType, kind: str, back: str) -> ArrayType:
    return x


def in_memory_lower(context: Any, x: Any, *, kind: str, back: str) -> Any:
    # The memory of a CPU is that of the host: it has all names, and nothing moves.
    return x if context.platform == "cpu" else stablehlo.memory_placement(x, kind)


# The value in memory of a kind; `back` is the kind in which it lies before.
in_memory_p = linear_primitive(
    "in_memory",
    type_rule=in_memory_type,
    transpose=in_memory_transpose,
    vmap=in_memory_vmap,
    reads=elementwise_reads,
    lower=in_memory_lower,
    flops="none",
)
