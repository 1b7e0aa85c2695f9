"""`pallas_call`: a kernel is interpreted, as a loop over its grid.

The kernel is recorded once, as a program that reads and writes references to blocks. A step of the
loop cuts the blocks, runs the program on references that hold them, and puts back those that it has
written; the loop carries the arrays that change. So it is an ordinary program, with every
transformation.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from weft import tree
from weft.api.jit import jit
from weft.control_flow.fori_loop import fori_loop
from weft.core.effects import RefType
from weft.core.jaxpr import Jaxpr, eval_jaxpr
from weft.core.shape_struct import described_type
from weft.core.trace import Tracer
from weft.core.types import ArrayType, type_of, user_value
from weft.errors import (
    Fix,
    TreeError,
    WeftNotImplementedError,
    WeftTypeError,
    WeftValueError,
    api_boundary,
)
from weft.errors.argument_errors import describe_value, not_a_function, refusal
from weft.experimental.pallas.blocks import INDEX, Grid, Operand, buffer, operand
from weft.experimental.pallas.captures import check_arguments, check_captures
from weft.experimental.pallas.grid import running_at
from weft.experimental.pallas.kernels import (
    WHY,
    BlockSpec,
    GridSpec,
    InterpretParams,
    forced_interpretation,
    no_block_spec,
)
from weft.interpreters.staging import function_name, trace_to_jaxpr
from weft.ops.elementwise.arithmetic import div, mul, rem
from weft.ops.elementwise.convert import convert_element_type
from weft.refs.discharge import written_inputs
from weft.refs.reference import contents, new_reference, with_staged_refs

_OPERATION = "pallas_call"


@api_boundary
def pallas_call(
    kernel: Callable[..., None],
    out_shape: Any,
    *,
    grid_spec: GridSpec | None = None,
    grid: Any = (),
    in_specs: Any = no_block_spec,
    out_specs: Any = no_block_spec,
    scratch_shapes: Any = (),
    input_output_aliases: Mapping[int, int] | None = None,
    debug: bool = False,
    interpret: Any = False,
    name: str | None = None,
    compiler_params: Any = None,
    cost_estimate: Any = None,
    metadata: Any = None,
) -> Callable[..., Any]:
    """A function of arrays that runs a kernel at each place of a grid, the last axis fastest.

    The kernel gets references to blocks of the operands, to blocks of the results, which are
    described by the tree `out_shape`, and to buffers as `scratch_shapes` describe them, which keep
    what is in them from one step to the next. `in_specs` and `out_specs` are trees of `BlockSpec`
    like those of operands and results; `grid` is a length or a tuple of them. `grid_spec` says all
    of this at once. A result in `input_output_aliases` (operand to result, by number) begins as
    the operand. Unwritten memory holds NaN, or the least integer.

    With `interpret=True` (or `tpu.InterpretParams()`) it runs, and has the derivatives of the loop
    that it is; without, the function raises WeftNotImplementedError when it is called. What only a
    compiler of kernels reads (`compiler_params`, `cost_estimate`, `metadata`) is not looked at.

    Raises WeftTypeError, WeftValueError, ShapeError and TreeError if grid, blocks, kernel and
    operands do not fit.

    Args:
        kernel: The function of references, which writes its results and returns nothing.
        debug: Has no meaning in an interpreted kernel.
        name: What the function is called in programs and messages; None for the kernel's name.
        out_shape: A tree of objects with `shape` and `dtype`, which describe the results.
        grid_spec: The grid, the blocks and the buffers in one object; None if they are arguments.
        grid: The lengths of the grid's axes: an int or a tuple.
        in_specs: A tree of `BlockSpec` like that of the operands; by default a block is all of one.
        out_specs: A tree of `BlockSpec` like that of the results; by default a block is all of one.
        scratch_shapes: Descriptions of buffers that the kernel gets behind operands and results.
        input_output_aliases: The number of the result that begins as an operand, by the operand's
            number.
        interpret: True, or `tpu.InterpretParams()`, to run the kernel; False raises at the call.
        compiler_params, cost_estimate, metadata: For compilers of kernels; it is not looked at.

    >>> from weft.experimental import pallas as pl
    >>> def double(x_ref, y_ref):
    ...     y_ref[...] = 2 * x_ref[...] + pl.program_id(0)
    >>> blocks = pl.BlockSpec((2,), lambda i: (i,))
    >>> pl.pallas_call(
    ...     double,
    ...     weft.ShapeDtypeStruct((4,), "float32"),
    ...     grid=2,
    ...     in_specs=[blocks],
    ...     out_specs=blocks,
    ...     interpret=True,
    ... )(jnp.arange(4.0))
    Array([0., 2., 5., 7.], dtype=float32)
    """
    if not callable(kernel):
        raise not_a_function(_OPERATION, kernel)
    parts = {"grid": grid, "in_specs": in_specs, "out_specs": out_specs}
    spec = _grid_spec(grid_spec, {**parts, "scratch_shapes": scratch_shapes})
    name = name or function_name(kernel)
    made = tuple(out_shape) if isinstance(out_shape, list) else out_shape
    how = forced_interpretation.get() or interpret
    return _Call(kernel, name, made, spec, dict(input_output_aliases or {}), how).as_function()


def _not_interpreted_error(name: str) -> WeftNotImplementedError:
    message = f"pallas.pallas_call of {name} is not available as a compiled kernel: {WHY}"
    fix = Fix("interpret", "pass interpret=True to pallas_call", {"interpret": True})
    wanted = "a kernel that is interpreted"
    got = "interpret=False"
    return refusal(WeftNotImplementedError, message, "pallas.pallas_call", got, wanted, fix)


def _grid_spec(spec: GridSpec | None, parts: dict[str, Any]) -> GridSpec:
    if spec is None:
        return GridSpec(**parts)
    given = [
        name
        for name, value in parts.items()
        if value is not no_block_spec and not (isinstance(value, (tuple, list)) and not value)
    ]
    if given:
        message = f"{_OPERATION}: grid_spec and {given[0]} are both given"
        fix = Fix("grid_spec", f"leave {given[0]} out, and say it in the grid_spec")
        got, wanted = f"{given[0]}={parts[given[0]]!r:.80}", "one of the two"
        raise refusal(WeftValueError, message, _OPERATION, got, wanted, fix)
    return spec


def _fill_mode(interpret: Any) -> str:
    """The value of unwritten memory, for `unwritten`. Raises WeftNotImplementedError for an unknown
    way of interpreting."""
    if not isinstance(interpret, InterpretParams):
        return "least"
    plain = InterpretParams()
    for name in (
        "detect_races",
        "skip_floating_point_ops",
        "grid_point_recorder",
        "num_cores_or_threads",
        "logging_mode",
    ):
        if getattr(interpret, name) != getattr(plain, name):
            message = f"{_OPERATION}: an interpreted kernel runs in one thread, step by step"
            default = getattr(plain, name)
            fix = Fix("plain", f"leave {name} out of InterpretParams", {name: default})
            got, wanted = f"{name}={getattr(interpret, name)!r}", f"{name}={default!r}"
            raise refusal(WeftNotImplementedError, message, _OPERATION, got, wanted, fix)
    return "zero" if interpret.uninitialized_memory == "zero" else "greatest"


@dataclasses.dataclass(frozen=True)
class _Call:
    """The arguments of `pallas_call`."""

    kernel: Callable[..., Any]
    name: str
    out_shape: Any
    spec: GridSpec
    aliases: dict[int, int]
    interpret: Any

    def as_function(self) -> Callable[..., Any]:
        """The function that `pallas_call` returns."""

        def run(*args: Any) -> Any:
            return self._run(args)

        run.__name__ = self.name
        compiled = jit(run, inline=True)

        def interpreted(*args: Any) -> Any:
            if not self.interpret:
                raise _not_interpreted_error(self.name)
            return compiled(*args)

        interpreted.__name__ = self.name
        return interpreted

    def _run(self, args: tuple[Any, ...]) -> Any:
        plan, values, out_tree = self._plan(args)
        scalars, inputs = values[: plan.scalars], values[plan.scalars :]
        return tree.unflatten(out_tree, plan.run(scalars, inputs, self.aliases))

    def _plan(self, args: tuple[Any, ...]) -> tuple[_Interpretation, list[Any], Any]:
        fill = _fill_mode(self.interpret)
        lengths = _lengths(self.spec.grid)
        count = getattr(self.spec, "num_scalar_prefetch", 0)
        scalar_leaves, scalar_tree = tree.flatten(args[:count])
        leaves, in_tree = tree.flatten(args[count:])
        values = [_strong(value) for value in (*scalar_leaves, *leaves)]
        types = [type_of(value) for value in values]
        scalar_types, in_types = types[: len(scalar_leaves)], types[len(scalar_leaves) :]
        outs, out_tree = tree.flatten(self.out_shape)
        varying: frozenset[str] = frozenset().union(*(of.varying for of in types))
        out_types = [_result_type(out).update(varying=varying) for out in outs]
        in_names = [f"args{tree.keystr(path)}" for path, _ in tree.leaves_with_path(args)]
        out_names = [f"outputs{tree.keystr(p)}" for p, _ in tree.leaves_with_path(self.out_shape)]
        self._check_aliases(types, out_types)
        grid = Grid(lengths, scalar_types, scalar_tree)
        operands = [
            operand(name, spec, of, grid)
            for name, spec, of in zip(
                [*in_names[len(scalar_leaves) :], *out_names],
                [
                    *_specs("in_specs", self.spec.in_specs, in_tree, "the operands"),
                    *_specs("out_specs", self.spec.out_specs, out_tree, "out_shape"),
                ],
                [*in_types, *out_types],
                strict=True,
            )
        ]
        buffers, buffer_tree = tree.flatten(self.spec.scratch_shapes)
        scratch = [buffer(described, fill) for described in buffers]
        trees = (scalar_tree, in_tree, out_tree, buffer_tree)
        split = [len(scalar_leaves), len(leaves), len(outs), len(buffers)]
        refs = [
            *(RefType(of) for of in scalar_types),
            *(item.ref_type for item in operands),
            *(RefType(type_of(value).update(varying=varying)) for value in scratch),
        ]
        program, closed_over = self._trace_kernel(lengths, refs, trees, split)
        plan = _Interpretation(
            lengths, program, closed_over, len(scalar_leaves), len(leaves), operands, scratch, fill
        )
        return plan, values, out_tree

    def _trace_kernel(
        self, lengths: Sequence[Any], refs: list[Any], trees: Any, split: list[int]
    ) -> tuple[Jaxpr, list[Any]]:
        """The kernel as a program of the indices, of the traced lengths, and of references; and the
        references and constants it closes over."""
        dynamic = [i for i, n in enumerate(lengths) if not isinstance(n, int)]
        what = f"the kernel {self.name}"

        def flat(*values: Any) -> list[Any]:
            given = with_staged_refs(values)
            indices, rest = given[: len(lengths)], given[len(lengths) :]
            sizes = list(lengths)
            for i in dynamic:
                sizes[i] = rest.pop(0)
            args, named = _join_arguments(rest, trees, split)
            takes = f"{len(args)} references: operands, results, buffers"
            check_arguments(what, self.kernel, len(args), named, takes)
            with running_at(indices, sizes):
                out = self.kernel(*args, **named)
            if tree.leaves(out):
                message = f"{_OPERATION}: {what} returns a value"
                fix = Fix("write", "write it into the reference of a result: out_ref[...] = value")
                raise refusal(WeftValueError, message, _OPERATION, f"{out!r:.100}", "None", fix)
            return []

        program, consts = trace_to_jaxpr(
            flat,
            [INDEX] * (len(lengths) + len(dynamic)) + refs,
            transformation=_OPERATION,
            name=self.name,
            references=True,
        )
        check_captures(what, self.kernel, consts)
        return program, consts

    def _check_aliases(self, types: list[ArrayType], out_types: list[ArrayType]) -> None:
        for taken, made in self.aliases.items():
            known = 0 <= taken < len(types) and 0 <= made < len(out_types)
            if known:
                here, there = types[taken], out_types[made]
                if here.shape == there.shape and here.dtype == there.dtype:
                    continue
            message = f"{_OPERATION}: input_output_aliases names no operand and result of one type"
            got = f"{taken}: {made}, with {len(types)} operands and {len(out_types)} results"
            if known:
                got = f"{taken}: {made}, which are {types[taken]} and {out_types[made]}"
            fix = Fix("aliases", "pass {number of the operand: number of the result}")
            wanted = "an operand and a result of equal shape and dtype"
            raise refusal(WeftValueError, message, _OPERATION, got, wanted, fix)


def _strong(value: Any) -> Any:
    value = user_value(value)
    of = type_of(value)
    return convert_element_type(value, of.dtype) if of.weak_type else value


def _result_type(out: Any) -> ArrayType:
    if not hasattr(out, "shape"):
        message = f"{_OPERATION}: out_shape says the shapes and dtypes of the results"
        wanted = "a ShapeDtypeStruct, or a tree of those"
        raise refusal(WeftTypeError, message, _OPERATION, describe_value(out), wanted)
    return described_type(out).update(weak_type=False)


def _lengths(grid: Any) -> list[Any]:
    """The lengths of a grid: ints, and int32 where they are known only when it runs."""
    entries = grid if isinstance(grid, (tuple, list)) else (grid,)
    out = []
    for entry in entries:
        length = entry[1] if isinstance(entry, tuple) and len(entry) == 2 else entry
        if isinstance(length, Tracer) and not length.shape and length.dtype.kind in "iu":
            out.append(convert_element_type(length, INDEX.dtype))
        elif not isinstance(length, (bool, Tracer)) and hasattr(length, "__index__"):
            out.append(length.__index__())
        else:
            message = f"{_OPERATION}: an entry of the grid is no length"
            fix = Fix("grid", "pass an int, or a tuple of ints")
            wanted = "an integer, or a tuple of integers"
            raise refusal(WeftTypeError, message, _OPERATION, describe_value(length), wanted, fix)
    return out


def _specs(argument: str, specs: Any, wanted: Any, what: str) -> list[BlockSpec]:
    """The descriptions of blocks as a flat list."""
    if specs is no_block_spec:
        return [no_block_spec] * wanted.num_leaves
    leaves, found = tree.flatten(tuple(specs) if isinstance(specs, list) else specs)
    if found != wanted:
        message = f"{_OPERATION}: the trees of {argument} and of {what} differ"
        fix = Fix("specs", f"pass one BlockSpec for each leaf of {what}, in a tree like it")
        raise refusal(TreeError, message, _OPERATION, str(found), str(wanted), fix)
    return leaves


def _join_arguments(
    refs: list[Any], trees: Sequence[Any], split: Sequence[int]
) -> tuple[list[Any], dict[str, Any]]:
    """The positional and the named arguments of a kernel."""
    args: list[Any] = []
    start = 0
    for of, count in zip(trees, split, strict=True):
        group = of.unflatten(refs[start : start + count])
        start += count
        if of is trees[-1] and isinstance(group, dict):
            return args, group
        args += group if isinstance(group, (tuple, list)) else [group]
    return args, {}


@dataclasses.dataclass(frozen=True)
class _Interpretation:
    """A recorded kernel and its operands: `inputs` of them are taken, the others are made."""

    lengths: list[Any]
    program: Jaxpr
    closed_over: list[Any]
    scalars: int
    inputs: int
    operands: list[Operand]
    scratch: list[Any]
    fill: str

    def run(self, scalars: list[Any], inputs: list[Any], aliases: dict[int, int]) -> list[Any]:
        """The results."""
        given = [*scalars, *inputs]
        sources = {made: given[taken] for taken, made in aliases.items()}
        results = self.operands[self.inputs :]
        outs = [sources.get(i, None) for i in range(len(results))]
        arrays = [
            item.padded(item.empty(self.fill) if value is None else value, self.fill)
            for item, value in zip(self.operands, [*inputs, *outs], strict=True)
        ]
        arrays += self.scratch
        changed = self._written_numbers()

        def step(number: Any, carried: list[Any]) -> list[Any]:
            now = list(arrays)
            for i, value in zip(changed, carried, strict=True):
                now[i] = value
            after = self._step(self._indices(number), scalars, now)
            return [after[i] for i in changed]

        carry = [arrays[i] for i in changed]
        total = self._total()
        once = isinstance(total, int) and total == 1
        carry = step(None, carry) if once else fori_loop(0, total, step, carry)
        for i, value in zip(changed, carry, strict=True):
            arrays[i] = value
        finished = arrays[self.inputs : len(self.operands)]
        return [item.without_padding(value) for item, value in zip(results, finished, strict=True)]

    def _total(self) -> Any:
        total: Any = math.prod(n for n in self.lengths if isinstance(n, int))
        for n in self.lengths:
            if not isinstance(n, int):
                total = mul(n, INDEX.dtype.type(total) if isinstance(total, int) else total)
        return total

    def _indices(self, number: Any) -> list[Any]:
        """The grid indices of a step; the first ones for the number None."""
        lengths = [INDEX.dtype.type(n) if isinstance(n, int) else n for n in self.lengths]
        moving = [i for i, n in enumerate(self.lengths) if not (isinstance(n, int) and n == 1)]
        out: list[Any] = [INDEX.dtype.type(0)] * len(lengths)
        if number is None:
            return out
        number = convert_element_type(number, INDEX.dtype)
        for i in moving[:0:-1]:
            out[i] = rem(number, lengths[i])
            number = div(number, lengths[i])
        out[moving[0]] = number
        return out

    def _first_ref(self) -> int:
        dynamic = sum(not isinstance(n, int) for n in self.lengths)
        return len(self.closed_over) + len(self.lengths) + dynamic + self.scalars

    def _written_numbers(self) -> list[int]:
        """The numbers of the operands and buffers that the kernel writes."""
        first = self._first_ref()
        return [i - first for i in written_inputs(self.program) if i >= first]

    def _step(self, indices: list[Any], scalars: list[Any], arrays: list[Any]) -> list[Any]:
        """The arrays after one run of the kernel."""
        starts = [item.starts(indices, scalars) for item in self.operands]
        pairs = list(zip(self.operands, starts, strict=True))
        count = len(pairs)
        blocks = [
            item.cut(array, start)
            for (item, start), array in zip(pairs, arrays[:count], strict=True)
        ]
        refs = [new_reference(value) for value in (*blocks, *arrays[count:])]
        sizes = [n for n in self.lengths if not isinstance(n, int)]
        eval_jaxpr(
            self.program,
            (),
            *self.closed_over,
            *indices,
            *sizes,
            *(new_reference(value) for value in scalars),
            *refs,
        )
        after = list(arrays)
        for i in self._written_numbers():
            value = contents(refs[i])
            after[i] = pairs[i][0].put(arrays[i], pairs[i][1], value) if i < count else value
        return after
