"""The public `shard_map`: specs and trees on top of the flat primitive, and their errors."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Sequence
from typing import Any, ParamSpec, TypeVar, overload

import numpy as np

from weft import config, tree
from weft.base.util import drop_marked, keep_marked, like, merge, scatter_to_marked
from weft.core.axes import mesh_axes
from weft.core.rules import Params, Values
from weft.core.trace import Trace, Tracer, bottom_trace, current_trace
from weft.core.types import ArrayType, type_of, user_value
from weft.errors import (
    AxisError,
    Fix,
    ShapeError,
    TreeError,
    WeftError,
    WeftTypeError,
    WeftValueError,
    api_boundary,
)
from weft.errors.argument_errors import describe_value, not_an_array
from weft.interpreters.staging import StagingTrace, check_function, check_results
from weft.ops.collectives.all_reduce import psum, vary
from weft.ops.collectives.invariant import assume_invariant
from weft.ops.elementwise.convert import beside_float64
from weft.refs.discharge import array_in, boxed_call, has_references
from weft.refs.reference import Ref
from weft.sharding import NamedSharding, PartitionSpec
from weft.sharding.context import is_simulated, mesh_in_force
from weft.sharding.mesh import AbstractMesh, AnyMesh, Mesh
from weft.spmd import eager as blocks
from weft.spmd.block_types import Manual
from weft.spmd.escaped_tracers import HiddenValues, substituting
from weft.spmd.shard_map_primitive import call_shard_map
from weft.spmd.why_varying import why_varies
from weft.tracing.argument_names import argument_path
from weft.tracing.closure_lifting import TracedValues

P = ParamSpec("P")
R = TypeVar("R")
E = TypeVar("E", bound=WeftError)

_MISSING: Any = object()


@overload
def shard_map(
    f: Callable[P, R],
    mesh: AnyMesh | None = None,
    in_specs: Any = _MISSING,
    out_specs: Any = _MISSING,
    axis_names: Iterable[str] | None = None,
    check_vma: bool = True,
    auto_pbroadcast: bool = True,
    bucket_bytes: int | None = None,
) -> Callable[P, R]: ...
@overload
def shard_map(
    f: None = None,
    mesh: AnyMesh | None = None,
    in_specs: Any = _MISSING,
    out_specs: Any = _MISSING,
    axis_names: Iterable[str] | None = None,
    check_vma: bool = True,
    auto_pbroadcast: bool = True,
    bucket_bytes: int | None = None,
) -> Callable[[Callable[P, R]], Callable[P, R]]: ...
@api_boundary
def shard_map(
    f: Callable[..., Any] | None = None,
    mesh: AnyMesh | None = None,
    in_specs: Any = _MISSING,
    out_specs: Any = _MISSING,
    axis_names: Iterable[str] | None = None,
    check_vma: bool = True,
    auto_pbroadcast: bool = True,
    bucket_bytes: int | None = None,
) -> Any:
    """Returns a function that every device of a mesh runs on its own blocks of the arguments.

    The function sees blocks of the same rank as the arguments; dimensions that a spec splits over
    mesh axes are divided by their sizes. Arguments that are passed by keyword take the spec of the
    parameter of that name. Outside of `jit` the function runs operation by operation: values can be
    printed, and Python can branch on those that are equal on all devices. With only keyword
    arguments it is a decorator.

    Reverse mode sums the cotangent of each argument that is whole on all devices, in an all-reduce
    of its own.

    Args:
        f: The function that each device runs. Without it, `shard_map` returns a decorator.
        mesh: The mesh of devices; by default the one of `weft.set_mesh`.
        in_specs: How arguments are split: a `PartitionSpec` for all of them, a tuple with one tree
            prefix of specs per argument, or a dict from argument names to those. An argument is
            whole on all devices along axes that its spec does not mention; so are arrays that the
            function closes over. A spec None hands numbers and what is no array on as they are.
        out_specs: How results are put together, a tree prefix of specs: blocks are concatenated
            along the axes that are mentioned, and are equal along the others, which the types of
            the blocks prove. `P(..., sum="i")` adds the blocks along an axis up.
        axis_names: The mesh axes that the function is written for, by default all; the others stay
            with the compiler.
        check_vma: Whether it is proved that results are equal where `out_specs` say so. False
            changes nothing else.
        auto_pbroadcast: Whether operations cast operands that vary along fewer axes than others.
            With False the function says with `lax.pbroadcast` where derivatives sum.
        bucket_bytes: How many bytes summed cotangents of one dtype over the same axes share in one
            all-reduce, at most (or those of one cotangent, where that is larger); None for an
            all-reduce each. Results are equal to rounding.

    Raises AxisError, ShapeError or TreeError where specs do not fit the mesh, the arguments or the
    results, naming the argument; AxisError where the blocks of a result may differ along an axis
    that its spec does not mention.

    >>> import weft, weft.numpy as jnp
    >>> from weft.sharding import PartitionSpec as P
    >>> mesh = weft.make_mesh((2,), ("i",), devices=weft.devices()[:2])
    >>> @weft.shard_map(mesh=mesh, in_specs=P("i"), out_specs=P())
    ... def total(block):
    ...     return weft.lax.psum(block.sum(), "i")
    >>> print(total(jnp.arange(8.0)))
    28.0
    """
    where = {"mesh": mesh, "in_specs": in_specs, "out_specs": out_specs}
    how = (axis_names, check_vma, auto_pbroadcast, bucket_bytes)
    if f is None:
        names = ("axis_names", "check_vma", "auto_pbroadcast", "bucket_bytes")
        return functools.partial(shard_map, **where, **dict(zip(names, how, strict=True)))
    call = _ShardMapped(f, mesh, in_specs, out_specs, *how)

    @api_boundary("shard_map")
    def mapped(*args: Any, **kwargs: Any) -> Any:
        return call(args, kwargs)

    return like(f, mapped)


def _is_spec(value: Any) -> bool:
    return value is None or isinstance(value, PartitionSpec)


def is_array(value: Any) -> bool:
    """Whether a value is or has an array, and is not a Python number."""
    if isinstance(value, (bool, int, float, complex)) and not isinstance(value, np.generic):
        return False
    try:
        type_of(user_value(value))
    except WeftTypeError:
        return False
    return True


class _ShardMapped:
    """A function with the mesh and specs of its shard_map; a call binds the primitive."""

    def __init__(
        self,
        function: Callable[..., Any],
        mesh: AnyMesh | None,
        in_specs: Any,
        out_specs: Any,
        axis_names: Iterable[str] | None,
        check: bool,
        auto: bool,
        bucket_bytes: int | None,
    ) -> None:
        self.name = check_function(
            "shard_map",
            function,
            wanted="a function of blocks",
            fix=Fix("function", "write shard_map(f, mesh=mesh, in_specs=...)"),
        )
        self.function = function
        self.operation = f"shard_map of {self.name}"
        for what, given in (("in_specs", in_specs), ("out_specs", out_specs)):
            if given is _MISSING:
                fix = Fix("spec", f"pass {what}=P() where nothing is split", {"missing": what})
                wanted = f"{what}=..., a tree of PartitionSpecs"
                raise self._error(WeftTypeError, f"{what} is missing", None, wanted, fix)
            self._check_specs(what, given)
        if mesh is not None and not isinstance(mesh, AnyMesh):
            wanted = "a weft.sharding.Mesh or AbstractMesh"
            fix = Fix("mesh", "make one: weft.make_mesh((8,), ('i',))")
            raise self._error(WeftTypeError, "mesh is no mesh", describe_value(mesh), wanted, fix)
        self.mesh = mesh
        self.in_specs = in_specs
        self.out_specs = out_specs
        self.axis_names = None if axis_names is None else self._names(axis_names)
        self.check = check
        self.auto = auto
        self.bucket_bytes = None if bucket_bytes is None else self._bucket_bytes(bucket_bytes)
        if mesh is not None and not mesh_axes():
            # Wrong specs raise where they are written, before the first call.
            self._check_axes(self._manual())

    def _error(self, kind: type[E], text: str, got: Any, wanted: str, fix: Fix) -> E:
        """An error whose message begins with the operation."""
        return kind(f"{self.operation}: {text}", got=got, wanted=wanted, fix=fix)

    def _bucket_bytes(self, given: Any) -> int:
        if not isinstance(given, bool) and isinstance(given, (int, np.integer)) and given > 0:
            return int(given)
        kind = WeftValueError if isinstance(given, (int, float)) else WeftTypeError
        wanted = "a number of bytes, an int of 1 or more, or None"
        fix = Fix("bucket_bytes", "pass bucket_bytes=2**25, or None to join no sums")
        raise self._error(kind, "bucket_bytes is no size", describe_value(given), wanted, fix)

    def _names(self, names: Any) -> tuple[str, ...]:
        several = isinstance(names, Iterable) and not isinstance(names, str)
        out = tuple(names) if several else (names,)
        if all(isinstance(name, str) for name in out):
            return out
        text, got = "axis_names takes the names of mesh axes", f"axis_names={names!r}"
        known = ", ".join(map(repr, self.mesh.axis_names if self.mesh is not None else ("i",)))
        fix = Fix("names", f"leave axis_names out, or pass some of {{{known}}}")
        raise self._error(WeftTypeError, text, got, "a set of strings", fix)

    def __call__(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        manual = self._manual()
        args, kwargs = self._positional(args, kwargs)
        given, in_tree = tree.flatten((args, kwargs))
        every = self._argument_specs(args, kwargs, manual)
        if has_references(given):
            return self._over_references(given, in_tree, every)
        # Where a spec is None, what is no array is handed on as it is.
        dynamic = [s is not None or is_array(x) for x, s in zip(given, every, strict=True)]
        leaves = [user_value(x) for x in beside_float64(keep_marked(dynamic, given))]
        specs = [PartitionSpec() if spec is None else spec for spec in keep_marked(dynamic, every)]
        # The tree without the others gives the paths of arguments.
        shown = in_tree.unflatten(scatter_to_marked(dynamic, leaves))
        self._check_arguments(shown, leaves, specs, manual)

        def arguments(values: Sequence[Any]) -> Any:
            return in_tree.unflatten(merge(dynamic, values, drop_marked(dynamic, given)))

        hidden: list[Tracer] = []
        while True:
            try:
                return self._apply(shown, leaves, arguments, specs, manual, hidden)
            except HiddenValues as error:
                fresh = [x for x in error.values if all(x is not known for known in hidden)]
                if not fresh:
                    raise
                hidden += fresh

    def _over_references(
        self, given: Sequence[Any], in_tree: Any, specs: Sequence[PartitionSpec | None]
    ) -> Any:
        """Applies the function to references to blocks; one whose spec is None is passed on."""

        def called(args: Any, kwargs: Any) -> Any:
            return self.function(*args, **kwargs)

        called.__name__ = self.name
        kept = [i for i, x in enumerate(given) if type(x) is Ref and specs[i] is None]
        call = boxed_call("shard_map", called, given, in_tree, kept=kept)
        own = [PartitionSpec() if i in kept else spec for i, spec in enumerate(specs)]
        mapped = _ShardMapped(
            lambda *values: call.function(values),
            self.mesh,
            tuple(own),
            (self.out_specs, [own[i] for i in call.places]),
            self.axis_names,
            self.check,
            self.auto,
            self.bucket_bytes,
        )
        mapped.name, mapped.operation = self.name, self.operation
        out, last = mapped(tuple(array_in(x) for x in given), {})
        call.write(last)
        return out

    def _apply(
        self,
        dynamic: Any,
        leaves: Sequence[Any],
        arguments: Callable[[Sequence[Any]], Any],
        specs: Sequence[PartitionSpec],
        manual: Manual,
        hidden: Sequence[Tracer],
    ) -> Any:
        """Binds the primitive; closed-over traced values are operands, and so are the `hidden` ones
        that the function reads in other ways."""
        closed = TracedValues()
        closed.search(self.function)
        m = len(closed.found)
        n = m + len(hidden)
        out_trees: list[Any] = []
        found: list[PartitionSpec] = []

        def flat(*blocks: Any) -> list[Any]:
            if manual.untyped:
                blocks = tuple([vary(x, manual.axes) for x in blocks])
            (own,) = closed.replace_traced([self.function], blocks[:m])
            inner_args, inner_kwargs = arguments(blocks[n:])
            with substituting(hidden, blocks[m:n]):
                out = own(*inner_args, **inner_kwargs)
            outs, out_tree = tree.flatten(out)
            operands = {id(x): block for x, block in zip(hidden, blocks[m:n], strict=True)}
            outs = [operands.get(id(x), x) for x in outs]
            outs = check_results(out, outs, self.operation)
            given = self._by_leaf("out_specs", self.out_specs, out_tree)
            specs = [PartitionSpec() if spec is None else spec for spec in given]
            out_trees.append(out_tree)
            found[:] = [spec.update(sum=()) if spec.sum else spec for spec in specs]
            paths = [path for path, _ in tree.leaves_with_path(out)]
            names = functools.partial(self._operand_names, n, dynamic)
            rows = zip(outs, specs, paths, strict=True)
            return [self._result(x, spec, path, manual, names) for x, spec, path in rows]

        flat.__name__ = self.name
        outs = call_shard_map(
            {"manual": manual, "name": self.name, "outside": _transformations()},
            flat,
            [*closed.found, *hidden, *leaves],
            [*(PartitionSpec() for _ in range(n)), *specs],
            lambda: tuple(found),
        )
        return out_trees[-1].unflatten(outs)

    # ---- the mesh -----------------------------------------------------------------------------

    def _manual(self) -> Manual:
        """The mesh of a call, with the axes that are manual in the function."""
        around = mesh_axes()
        mesh = self.mesh
        if mesh is None:
            mesh = around[-1].mesh if around else mesh_in_force()
        if mesh is None:
            fix = Fix("mesh", "pass mesh=..., or call it inside weft.use_mesh(mesh)")
            got = "mesh=None, and no mesh in force"
            raise self._error(WeftValueError, "there is no mesh", got, "a mesh", fix)
        outer = {axis.name for axis in around}
        if around:
            mesh = self._mesh_inside(mesh, around[-1].mesh)
        names = self.axis_names
        if names is None:
            names = tuple(axis for axis in mesh.axis_names if axis not in outer)
        unknown = [name for name in names if name not in mesh.axis_names]
        twice = [name for name in names if name in outer]
        if unknown or twice or not names:
            raise self._wrong_axes(mesh, names, unknown, twice)
        ordered = tuple(axis for axis in mesh.axis_names if axis in names)
        untyped = not self.check and config.lenient()
        simulated = is_simulated(mesh)
        if simulated:
            mesh = mesh.abstract_mesh
        return Manual(mesh, ordered, not self.auto, simulated, untyped, self.bucket_bytes)

    def _mesh_inside(self, mesh: AnyMesh, outer: AnyMesh) -> AnyMesh:
        """`outer`, the mesh around. Raises WeftValueError for another `mesh`; an abstract mesh with
        the same axes is the same."""
        if mesh is outer or mesh is outer.abstract_mesh:
            return outer
        if isinstance(outer, AbstractMesh) and mesh.abstract_mesh == outer:
            return outer
        text = "a shard_map inside another one has to be over the same mesh"
        got = f"{mesh!r} over {_devices(mesh)}, inside {outer!r} over {_devices(outer)}"
        fix = Fix("mesh", "leave out mesh=..., or pass the same", {"mesh": outer})
        raise self._error(WeftValueError, text, got, "the mesh of the outer shard_map", fix)

    def _wrong_axes(
        self, mesh: AnyMesh, names: Sequence[str], unknown: Sequence[str], twice: Sequence[str]
    ) -> AxisError:
        outer = tuple(axis.name for axis in mesh_axes())
        free = tuple(axis for axis in mesh.axis_names if axis not in outer)
        if unknown:
            text = f"{unknown[0]!r} is no axis of the mesh"
        elif twice:
            text = f"{twice[0]!r} is an axis of a shard_map around this one already"
        else:
            text = "no axis of the mesh is left for it"
        if free:
            quoted = ", ".join(map(repr, free))
            fix = Fix("axis_names", f"pass axis_names={{{quoted}}}", {"axis_names": free})
        else:
            fix = Fix(
                "outer_axis_names",
                "call the function itself, whose collectives may name all axes here, or give the "
                "outer shard_map axis_names that leave some over",
                {"axes": outer},
            )
        got = f"axis_names={tuple(names)} and a mesh with the axes {mesh.axis_names}"
        if outer:
            got += f", of which {outer} are those of a shard_map around this one"
        wanted = f"one or more of {free}" if free else "an axis that is not manual yet"
        return self._error(AxisError, text, got, wanted, fix)

    # ---- specs --------------------------------------------------------------------------------

    def _check_specs(self, what: str, given: Any) -> None:
        for path, leaf in tree.leaves_with_path(given, is_leaf=_is_spec):
            which = f"{what}{tree.keystr(path)}"
            if not _is_spec(leaf):
                wrapped = PartitionSpec(leaf) if isinstance(leaf, str) else PartitionSpec()
                text, wanted = f"{which} is no PartitionSpec", "a PartitionSpec, or a tree of them"
                fix = Fix("spec", f"wrap the axis names: {wrapped!r}", {"spec": wrapped})
                raise self._error(WeftTypeError, text, describe_value(leaf), wanted, fix)
            open_at = [] if leaf is None else [d for d in range(len(leaf)) if leaf.is_open(d)]
            if open_at:
                whole = PartitionSpec(*(None if d in open_at else e for d, e in enumerate(leaf)))
                text = f"{which} leaves a dimension to the compiler"
                wanted = "None or mesh axes for each dimension"
                fix = Fix("spec", f"use {whole!r}", {"path": path, "spec": whole})
                raise self._error(AxisError, text, repr(leaf), wanted, fix)
            if leaf is not None and leaf.sum and what == "in_specs":
                wanted = "a spec without sum=; only results can be summed"
                fix = Fix("drop", "leave out sum=", {"path": path})
                raise self._error(AxisError, f"{which} has a sum", repr(leaf), wanted, fix)

    def _check_axes(self, manual: Manual) -> None:
        """Raises AxisError for a spec that mentions an axis that is not manual."""
        for what, given in (("in_specs", self.in_specs), ("out_specs", self.out_specs)):
            for path, spec in tree.leaves_with_path(given, is_leaf=_is_spec):
                if spec is not None:
                    self._check_spec(f"{what}{tree.keystr(path)}", spec, manual)

    def _check_spec(self, which: str, spec: PartitionSpec, manual: Manual) -> None:
        for name in (*spec.axes(), *spec.sum):
            if name not in manual.axes:
                fault, advice = "no axis of the mesh", f"name one of {list(manual.axes)}"
                if name in manual.mesh.axis_names:
                    fault = "not among axis_names"
                    advice = f"add {name!r} to axis_names, or leave it out of the spec"
                raise self._error(
                    AxisError,
                    f"{which} mentions {name!r}, which is {fault}",
                    f"{spec!r} and the axes {manual.axes}",
                    f"axes among {list(manual.axes)}",
                    Fix("axis", advice, {"name": name, "axes": manual.axes}),
                )

    def _positional(self, args: tuple[Any, ...], kwargs: Params) -> tuple[tuple[Any, ...], Params]:
        """The call with keyword arguments by position, if specs are by position."""
        if not kwargs or isinstance(self.in_specs, (dict, PartitionSpec)):
            return args, kwargs
        try:
            bound = inspect.signature(self.function).bind(*args, **kwargs)
        except (TypeError, ValueError):
            return args, kwargs
        return bound.args, bound.kwargs

    def _argument_specs(
        self, args: tuple[Any, ...], kwargs: dict[str, Any], manual: Manual
    ) -> list[PartitionSpec | None]:
        given = self.in_specs
        if isinstance(given, dict):
            given = self._by_name(given, args, kwargs)
        elif isinstance(given, PartitionSpec) or given is None:
            given = (given, given)
        elif kwargs:
            text = "arguments passed by keyword have no place in in_specs"
            got = f"{', '.join(map(repr, kwargs))} by keyword, in_specs={self.in_specs!r:.200}"
            wanted = "in_specs as a dict from argument names to specs"
            fix = Fix("by_name", "write in_specs={'name': P(...), ...}", {"names": list(kwargs)})
            raise self._error(TreeError, text, got, wanted, fix)
        else:
            given = (self._one_each(given, args), {})
        specs = self._by_leaf("in_specs", given, (args, kwargs))
        paths = tree.leaves_with_path((args, kwargs))
        for (path, _), spec in zip(paths, specs, strict=True):
            if spec is not None:
                self._check_spec(f"the spec of {argument_path(self.function, path)}", spec, manual)
        return specs

    def _one_each(self, given: Any, args: tuple[Any, ...]) -> tuple[Any, ...]:
        if not isinstance(given, (tuple, list)) or len(given) != len(args):
            count = len(given) if isinstance(given, (tuple, list)) else 1
            text = f"in_specs has {count} entries and the call has {len(args)} arguments"
            wanted = "a tuple with one entry per argument, one spec for all, or a dict by name"
            fix = Fix("in_specs", f"give in_specs {len(args)} entries", {"count": len(args)})
            raise self._error(TreeError, text, f"in_specs={given!r:.200}", wanted, fix)
        return tuple(given)

    def _by_name(self, given: dict[str, Any], args: Any, kwargs: Any) -> tuple[Any, Any]:
        """The specs of a call, given those by argument name."""
        try:
            found = dict(inspect.signature(self.function).parameters)
        except (TypeError, ValueError):
            found = {}
        parameters = list(found)
        kinds = {parameter.kind for parameter in found.values()}
        unknown = [name for name in given if name not in parameters]
        got = f"in_specs with the names {list(given)}"
        if parameters and unknown and inspect.Parameter.VAR_KEYWORD not in kinds:
            text = f"in_specs has an entry for {unknown[0]!r}, which is no argument"
            fix = Fix("drop", f"leave {unknown[0]!r} out of in_specs", {"unknown": unknown})
            raise self._error(TreeError, text, got, f"names among {parameters}", fix)
        names = [parameters[i] if i < len(parameters) else f"<{i}>" for i in range(len(args))]
        missing = [name for name in (*names, *kwargs) if name not in given]
        if missing:
            text = f"in_specs has no entry for {missing[0]!r}"
            fix = Fix("entry", f"add {missing[0]!r}: P() to in_specs", {"missing": missing})
            raise self._error(
                TreeError, text, got, f"an entry for each of {[*names, *kwargs]}", fix
            )
        return tuple(given[name] for name in names), {name: given[name] for name in kwargs}

    def _check_arguments(
        self, shown: Any, leaves: Values, specs: Sequence[PartitionSpec], manual: Manual
    ) -> None:
        paths = [path for path, _ in tree.leaves_with_path(shown)]
        for path, leaf, spec in zip(paths, leaves, specs, strict=True):
            which = argument_path(self.function, path)
            try:
                shape = type_of(leaf).shape
            except WeftTypeError:
                fix = Fix("spec", "give it the spec None, or bind it with functools.partial")
                title = f"{self.operation}: {which}"
                raise not_an_array("shard_map", title, leaf, fix=fix) from None
            NamedSharding(manual.mesh, spec).check_shape(self.operation, which, shape)

    # ---- results ------------------------------------------------------------------------------

    def _by_leaf(self, what: str, given: Any, whole: Any) -> list[PartitionSpec | None]:
        """The spec of each leaf of a tree, given a prefix of it."""
        return tree.prefix_leaves(f"{self.operation}: {what}", given, whole, is_leaf=_is_spec)

    def _operand_names(self, closed: int, dynamic: Any) -> list[str]:
        """The operands' names for messages: closed-over values, then arguments."""
        paths = [path for path, _ in tree.leaves_with_path(dynamic)]
        arguments = [f"the argument {argument_path(self.function, path)}" for path in paths]
        return ["a closed-over value"] * closed + arguments

    def _result(
        self, x: Any, spec: PartitionSpec, path: Any, manual: Manual, names: Callable[[], list[str]]
    ) -> Any:
        """A result as a block that varies along the axes of its spec."""
        aval = type_of(x)
        which = f"the result{tree.keystr(path)}"
        self._check_spec(f"the spec of {which}", spec, manual)
        if len(spec) > aval.ndim:
            raise self._low_rank(which, aval, spec)
        if spec.sum:
            same = manual.ordered(set(spec.sum) - aval.varying)
            if same:
                raise self._nothing_to_sum(which, aval, spec, same)
            x = psum(x, spec.sum)
            aval = type_of(x)
        wanted = frozenset(spec.axes())
        extra = manual.ordered(aval.varying - wanted)
        if extra and self.check:
            raise self._differs(which, x, spec, extra, names())
        if extra:
            x = assume_invariant(x, extra)
        return vary(x, wanted)

    def _nothing_to_sum(
        self, which: str, aval: ArrayType, spec: PartitionSpec, same: tuple[str, ...]
    ) -> AxisError:
        axes = repr(same[0]) if len(same) == 1 else repr(same)
        rest = spec.update(sum=tuple(axis for axis in spec.sum if axis not in same))
        return self._error(
            AxisError,
            f"{which} is equal on all devices along {axes}, which its spec sums over",
            f"a block of type {aval}, and {spec!r}",
            f"a block that varies along {axes}",
            Fix(
                "drop_or_pbroadcast",
                f"if it has been summed already, use {rest!r}; if a sum of equal copies is meant, "
                f"return lax.pbroadcast(x, {axes})",
                {"axes": same, "spec": rest},
            ),
        )

    def _low_rank(self, which: str, aval: ArrayType, spec: PartitionSpec) -> ShapeError:
        n = aval.ndim
        new = ", ".join(["None"] * (len(spec) - n))
        text = f"return x[{new}], to keep the blocks of all devices"
        axes = tuple(name for name in spec.axes() if name in aval.varying)
        if axes:
            text += f", or lax.psum(x, {axes}), and leave {axes} out of the spec"
        return self._error(
            ShapeError,
            f"{which} has too few dimensions for its spec",
            f"a block of type {aval}, and {spec!r}",
            f"a block with at least {len(spec)} dimensions, or a spec with at most {n} entries",
            Fix("dimension", text, {"ndim": n, "spec": spec, "axes": axes}),
        )

    def _differs(
        self, which: str, x: Any, spec: PartitionSpec, axes: tuple[str, ...], names: Sequence[str]
    ) -> AxisError:
        axis = axes[0]
        named = repr(axis) if len(axes) == 1 else repr(axes)
        keep = "mention" if type_of(x).ndim else "return x[None] and mention"
        return self._error(
            AxisError,
            f"{which} may differ between devices along {named}, which its spec does not mention",
            f"a block of type {type_of(x)}, and {spec!r}\n{why_varies(x, axis, names)}",
            f"a block that is equal on all devices along {named}",
            Fix(
                "reduce_or_mention",
                f"reduce it with lax.psum or lax.pmean over {named}, gather it with "
                f"lax.all_gather_invariant(x, {named}), or {keep} the axis in the spec to keep all "
                "blocks",
                {"axes": axes, "spec": spec},
            ),
        )


def _devices(mesh: AnyMesh) -> str:
    if not isinstance(mesh, Mesh):
        return "no devices"
    return "devices " + ", ".join(str(device.id) for device in mesh.device_list)


def _transformations() -> frozenset[Trace]:
    """The traces of transformations around the call, up to the one that stages or runs."""
    found = []
    trace: Trace | None = current_trace()
    while trace is not None and trace is not bottom_trace():
        if isinstance(trace, (StagingTrace, blocks.BlockTrace)):
            break
        found.append(trace)
        trace = trace.parent
    return frozenset(found)
