"""`pmap`: a function of one slice, run by one device per slice; a layer over `shard_map` and `jit`.

`shard_map` gives devices blocks that keep all their dimensions; `pmap` gives each device a slice
without the mapped dimension, as `vmap` does. It is here for users' programs that are written so.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any, ParamSpec, TypeVar

import numpy as np

from weft import config, tree
from weft.api.device_put import device_put
from weft.api.jit import jit
from weft.api.vmap import check_axes, checked_axes, mapped_axes, result_axes
from weft.base.util import like
from weft.core.axes import mesh_axes
from weft.core.trace import Tracer
from weft.core.types import type_of, user_value
from weft.dispatch.jitted import Jitted
from weft.errors import AxisError, Fix, ShapeError, WeftTypeError, WeftValueError, api_boundary
from weft.errors.argument_errors import invalid_type, not_a_function
from weft.interpreters.staging import check_results, function_name
from weft.ops.elementwise.convert import beside_float64
from weft.ops.structural.shape import expand_dims, move_dim, squeeze
from weft.ops.structural.sharding_constraint import with_sharding_constraint
from weft.runtime import client
from weft.sharding import AbstractMesh, Mesh, NamedSharding, PartitionSpec
from weft.sharding.context import is_simulated
from weft.sharding.devices import or_more_devices
from weft.sharding.mesh import AnyMesh
from weft.spmd.shard_map import shard_map
from weft.spmd.why_varying import why_varies
from weft.tracing.argument_names import argument_path

P = ParamSpec("P")
R = TypeVar("R")

# The axis of a pmap that was given no name; no collective is meant to know it.
_NAMELESS = "<pmap>"


@api_boundary
def pmap(
    fun: Callable[P, R],
    axis_name: str | None = None,
    *,
    in_axes: Any = 0,
    out_axes: Any = 0,
    static_broadcasted_argnums: int | Sequence[int] = (),
    devices: Sequence[Any] | None = None,
    backend: str | None = None,
    axis_size: int | None = None,
    donate_argnums: int | Sequence[int] = (),
) -> Callable[P, R]:
    """A compiled function that maps `fun` over an axis of its arguments, one device for each slice.

    The result is that of `weft.vmap`: `fun` sees slices without the mapped axis, and what it
    returns is stacked. The slices are on the first available devices (of the platform `backend`),
    or on the first of `devices`. Collectives in `fun` over `axis_name` communicate between them.

    `in_axes` is an int, None (the same value on all devices), or a tuple with one entry per
    positional argument, each a tree prefix of ints and None; keyword arguments are mapped along
    axis 0. `out_axes` says the same of the results: None takes a result once, which has to be equal
    on all devices. `static_broadcasted_argnums` are the positional arguments that are Python values
    (hashable; each new value needs a trace), `donate_argnums` those that give their memory to the
    results. `axis_size` is needed if no argument is mapped. The compiled function has a method
    `lower`, like a jitted function.

    Raises ShapeError if mapped axes differ in length, WeftValueError if devices are fewer
    than slices, AxisError for an axis that an argument does not have and for a result under
    out_axes=None that may differ between devices, TreeError if a prefix does not fit.

    >>> import weft, weft.numpy as jnp
    >>> from weft import lax
    >>> weft.pmap(lambda x: x / lax.psum(x, "i"), axis_name="i")(jnp.arange(4.0))
    Array([0.        , 0.16666667, 0.33333334, 0.5       ], dtype=float32, sharding=P('i'))
    """
    if not callable(fun):
        fix = Fix("function", "write pmap(f, axis_name='i')")
        raise not_a_function("pmap", fun, "a function of slices", fix)
    if backend is not None and devices is None:
        devices = client.devices(backend)
    static = static_broadcasted_argnums
    call = _Mapped(fun, axis_name, in_axes, out_axes, static, devices, axis_size)
    call.donated = _numbers(donate_argnums, "donate_argnums")

    def run(*args: Any, **kwargs: Any) -> Any:
        return call.run(args, kwargs)

    compiled: Jitted[..., Any] = jit(
        like(fun, run), static_argnums=call.static, donate_argnums=call.donated
    )

    @api_boundary("pmap")
    def mapped(*args: Any, **kwargs: Any) -> Any:
        args, kwargs = call.placed(args, kwargs)
        return compiled(*args, **kwargs)

    made = like(fun, mapped)
    made.lower = compiled.lower  # type: ignore[attr-defined]
    return made


class _Mapped:
    """A pmap of a function: its options, and the steps of a call."""

    def __init__(
        self,
        function: Callable[..., Any],
        axis_name: Any,
        in_axes: Any,
        out_axes: Any,
        static: Any,
        devices: Any,
        axis_size: Any,
    ) -> None:
        if axis_name is not None and not isinstance(axis_name, str):
            message = "pmap takes a string as the name of its axis"
            got = f"axis_name={axis_name!r:.100} of class {type(axis_name).__name__}"
            fix = Fix("axis_name", "pass axis_name='i'", {"axis_name": "i"})
            raise WeftTypeError(message, got=got, wanted="a string, or None", fix=fix)
        in_axes = checked_axes("pmap", in_axes)
        check_axes("pmap", "out_axes", out_axes)
        self.function = function
        self.name = function_name(function)
        self.operation = f"pmap of {self.name}"
        self.axis = _NAMELESS if axis_name is None else axis_name
        self.in_axes = in_axes
        self.out_axes = out_axes
        self.static = _numbers(static, "static_broadcasted_argnums")
        self.donated: tuple[int, ...] = ()
        self.devices = None if devices is None else tuple(devices)
        self.axis_size = None if axis_size is None else _length(axis_size)
        self._meshes: dict[int, Mesh] = {}

    def placed(
        self, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments with their slices on the devices that use them."""
        leaves, structure, dims, mesh = self._prepare(args, kwargs)
        donated = self._donated(args)
        found = [
            x
            if isinstance(x, Tracer)
            else device_put(x, NamedSharding(mesh, self._spec(dim)), donate=given)
            for x, dim, given in zip(leaves, dims, donated + [False] * len(leaves), strict=False)
        ]
        dynamic, kwargs = structure.unflatten(found)
        fixed = self._static_arguments(args)
        return tuple(fixed.get(i, x) for i, x in enumerate(dynamic)), kwargs

    def _static_arguments(self, args: tuple[Any, ...]) -> dict[int, Any]:
        """The static arguments of a call, by number from the front."""
        n = len(args)
        return {i % n: args[i] for i in self.static if -n <= i < n}

    def _without_static(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        fixed = self._static_arguments(args)
        return tuple(None if i in fixed else x for i, x in enumerate(args))

    def _donated(self, args: tuple[Any, ...]) -> list[bool]:
        """Whether each leaf of the positional arguments is donated."""
        numbers = {i + len(args) if i < 0 else i for i in self.donated}
        flags: list[bool] = []
        for i, x in enumerate(self._without_static(args)):
            flags += [i in numbers] * tree.structure(x).num_leaves
        return flags

    def _prepare(
        self, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[list[Any], Any, list[int | None], AnyMesh]:
        """The leaves of the arguments that are not static, their structure, the mapped dimension of
        each leaf, and a mesh with one device for each slice."""
        if mesh_axes():
            what = "a pmap cannot be called inside of another one, or of a shard_map"
            message, wanted = f"{self.operation}: {what}", "a call outside"
            got = f"a call for each device along {[axis.name for axis in mesh_axes()]}"
            text = "use weft.vmap inside, or one weft.shard_map over a mesh with both axes"
            fix = Fix("vmap", text, {"transformation": "vmap"})
            raise WeftValueError(message, got=got, wanted=wanted, fix=fix)
        inputs = (self._without_static(args), kwargs)
        leaves, structure = tree.flatten(inputs)
        leaves = list(beside_float64(leaves))
        values = [user_value(x) for x in leaves]
        dims, size = mapped_axes(
            "pmap", self.function, self.in_axes, inputs, values, self.axis_size
        )
        return leaves, structure, dims, self._mesh(size, *inputs, dims)

    def _spec(self, dim: int | None) -> PartitionSpec:
        return PartitionSpec() if dim is None else PartitionSpec(*[None] * dim, self.axis)

    def _mesh(self, size: int, args: Any, kwargs: Any, dims: Sequence[int | None]) -> AnyMesh:
        """A mesh with one device for each slice; a simulated one needs no devices."""
        if size > 0:
            simulated = AbstractMesh((size,), (self.axis,))
            if is_simulated(simulated):
                return simulated
        out = self._meshes.get(size)
        if out is None:
            there: Sequence[Any] = self.devices or ()
            if self.devices is None:
                there = sorted(client.devices(), key=lambda device: int(device.id))
            if not 0 < size <= len(there):
                raise self._wrong_length(size, there, args, kwargs, dims)
            out = self._meshes[size] = Mesh(np.array(there[:size], object), (self.axis,))
        return out

    def run(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The function that is compiled: `shard_map` over blocks of one slice each."""
        fixed = self._static_arguments(args)
        leaves, structure, dims, mesh = self._prepare(args, kwargs)
        out_trees: list[Any] = []
        wanted: list[int | None] = []

        def body(*blocks: Any) -> tuple[list[Any], list[Any]]:
            slices = [
                x if d is None else squeeze(x, (d,)) for x, d in zip(blocks, dims, strict=True)
            ]
            given, named = structure.unflatten(slices)
            out = self.function(*(fixed.get(i, x) for i, x in enumerate(given)), **named)
            outs, out_tree = tree.flatten(out)
            outs = check_results(out, outs, self.operation)
            out_trees.append(out_tree)
            wanted[:] = result_axes("pmap", self.name, self.out_axes, out_tree)
            self._check_results(out, outs, wanted)
            stacked = [
                expand_dims(x, (0,)) for x, d in zip(outs, wanted, strict=True) if d is not None
            ]
            return stacked, [x for x, d in zip(outs, wanted, strict=True) if d is None]

        body.__name__ = self.name
        mapped = shard_map(
            body,
            mesh=mesh,
            in_specs=tuple(self._spec(dim) for dim in dims),
            out_specs=(self._spec(0), self._spec(None)),
            check_vma=not config.lenient(),
        )
        stacked, whole = map(iter, mapped(*leaves))
        outs = [
            next(whole) if d is None else self._move_stacked(next(stacked), d, mesh) for d in wanted
        ]
        return out_trees[-1].unflatten(outs)

    def _move_stacked(self, stacked: Any, dim: int, mesh: AnyMesh) -> Any:
        """A result with its stacked dimension moved to `dim`; the slices stay on their devices."""
        target = dim % type_of(stacked).ndim
        if target == 0:
            return stacked
        moved = move_dim(stacked, 0, target, mesh.size)
        return with_sharding_constraint(moved, NamedSharding(mesh, self._spec(target)))

    def _check_results(self, out: Any, outs: Sequence[Any], wanted: Sequence[int | None]) -> None:
        """Raises AxisError for a result that cannot be stacked, or taken once, as out_axes say."""
        for i, (x, dim) in enumerate(zip(outs, wanted, strict=True)):
            of = type_of(x)
            ndim = of.ndim + 1
            fits = dim is None or -ndim <= dim < ndim
            # JAX takes the result of the first device.
            differs = dim is None and self.axis in of.varying and not config.lenient()
            if fits and not differs:
                continue
            which = f"the result{tree.keystr(tree.leaves_with_path(out)[i][0])}"
            if dim is not None:
                raise AxisError(
                    f"{self.operation}: out_axes={dim} and {which} has {ndim} axes when stacked",
                    operation="pmap",
                    got=f"out_axes entry {dim}",
                    wanted=f"{-ndim} to {ndim - 1}",
                    fix=Fix("out_axes", "pass out_axes=0", {"out_axes": 0}),
                )
            raise AxisError(
                f"{self.operation}: {which}, which out_axes calls None, may differ between devices",
                operation="pmap",
                got=f"a slice of type {of}\n{why_varies(x, self.axis)}",
                wanted="a result that is equal on all devices",
                fix=Fix(
                    "out_axes",
                    "give the result an axis in out_axes, or reduce it with lax.psum or lax.pmean "
                    "over axis_name",
                    {"out_axes": 0},
                ),
            )

    def _wrong_length(
        self, size: int, there: Sequence[Any], args: Any, kwargs: Any, dims: Sequence[int | None]
    ) -> Exception:
        where = "axis_size"
        if self.axis_size is None:
            first = next(i for i, dim in enumerate(dims) if dim is not None)
            path, leaf = tree.leaves_with_path((args, kwargs))[first]
            shape = type_of(user_value(leaf)).shape
            where = f"{argument_path(self.function, path)}, mapped along {dims[first]} of {shape}"
        if size < 1:
            return ShapeError(
                f"{self.operation}: the mapped axis is empty",
                got=where,
                wanted="at least one slice",
                fix=Fix("vmap", "use weft.vmap, which takes an empty axis", {"size": 1}),
            )
        fix = Fix("size", f"map {len(there)} slices at most", {"size": len(there)})
        if self.devices is None and there and there[0].platform == "cpu":
            fix = or_more_devices(size, fix)
        message = f"{self.operation}: there are fewer devices than slices"
        got = f"{size} slices ({where}) and {len(there)} devices"
        return WeftValueError(message, got=got, wanted="a device for each slice", fix=fix)


def _length(axis_size: Any) -> int:
    try:
        out = operator.index(axis_size)
    except TypeError:
        out = 0
    if out < 1 or isinstance(axis_size, bool):
        message = "pmap takes a whole number from 1 up as axis_size"
        fix = Fix("axis_size", "leave axis_size out where an argument is mapped")
        raise invalid_type(message, "pmap", "axis_size", axis_size, "the number of slices", fix=fix)
    return out


def _numbers(value: Any, what: str) -> tuple[int, ...]:
    try:
        return tuple(map(operator.index, value if isinstance(value, (tuple, list)) else (value,)))
    except TypeError:
        message = f"pmap takes the numbers of arguments in {what}"
        wanted = "an int, or a tuple of ints"
        fix = Fix("numbers", f"pass {what}=(0,) for the first argument", {what: (0,)})
        raise WeftTypeError(message, got=f"{what}={value!r:.100}", wanted=wanted, fix=fix) from None
