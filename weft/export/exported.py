"""`Exported`: a function as StableHLO, which any process can call.

It holds StableHLO, types, shardings and trees, and no Python function. A call is a primitive with
sharding constraints around it on its arguments and results; its derivative, where it has one, is
the backward rule of a `custom_vjp`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from weft import dtypes, tree
from weft.api.jit import jit
from weft.arrays.array import Array, as_stored
from weft.base.util import keep_marked, scatter_to_marked
from weft.core.axes import mesh_axes
from weft.core.types import ArrayType, type_of, user_value
from weft.custom_derivatives.custom_vjp_rules import custom_vjp
from weft.errors import (
    DTypeError,
    Fix,
    ShapeError,
    TreeError,
    WeftNotImplementedError,
    WeftTypeError,
    WeftValueError,
    api_boundary,
)
from weft.errors.argument_errors import conversion_text
from weft.export.call_exported import PortableProgram, call_exported_p
from weft.export.portability import DisabledSafetyCheck, check_custom_calls
from weft.export.serialized_values import Split
from weft.export.writing import serialize_exported
from weft.ops.structural.sharding_constraint import constrain
from weft.runtime import client
from weft.runtime.backends.device_placement import compilers_sharding
from weft.runtime.stablehlo import portable_artifact
from weft.sharding import Mesh, NamedSharding, Sharding
from weft.sharding.context import mesh_in_force
from weft.tracing.argument_names import argument_path
from weft.tree.static_data import exact_structure


def has_tangent(type: ArrayType) -> bool:
    """Whether values of a type have a derivative."""
    return bool(type.tangent().dtype != dtypes.float0)


def _place(path: Any) -> str:
    """The name of a position in (args, kwargs) in messages."""
    if not path:  # Only a crafted export has another structure here.
        return "the arguments"
    if len(path) < 2:
        return ("the positional arguments", "the arguments by name")[path[0].idx]
    return argument_path(None, path)


def _shardings(splits: Sequence[Split | None]) -> tuple[NamedSharding | None, ...]:
    return tuple(None if split is None else split.sharding for split in splits)


def _compilers(splits: Sequence[Split | None], types: Sequence[ArrayType]) -> tuple[Any, ...]:
    return tuple(
        None if split is None else compilers_sharding(split.assignment(of.ndim))
        for split, of in zip(splits, types, strict=True)
    )


def _committed_place(value: Any) -> Any:
    """The device or sharding of a committed array; None for others, and for a traced value."""
    return value._committed_place() if type(value) is Array else None


@dataclasses.dataclass(frozen=True, eq=False)
class Exported:
    """An exported function, made by `weft.export.export` or `weft.export.deserialize`.

    fun_name: the name of the function that it was made of;
    in_tree, out_tree: the structures of (args, kwargs) and of the result;
    in_avals, out_avals: the types of their leaves, in the order of the trees;
    in_shardings, out_shardings: how these are split, over an abstract mesh; None if that is left
    to the compiler, where all is on one device, and for shardings that are not a spec over a mesh;
    platforms: those that it can be called on; nr_devices: how many devices run it together;
    stablehlo_version: the version that a reader's StableHLO has to understand;
    calling_convention_version: that of JAX's setting jax_export_calling_convention_version, which
    is kept with it and changes nothing;
    disabled_safety_checks: those that it was exported without.

    Args:
        in_avals, out_avals: The types of the leaves of the arguments and of the result, in the
            order of the trees.
        _program: The modules, one for each platform, as portable artifacts.
        _consts: The arrays that the function closed over.
        _in_splits, _out_splits: How operands (arrays that are closed over first) and results are
            split.
        _names: How messages call the leaves of the arguments.
        _make_vjp: Makes the derivative; None where there is none.
        _made: What has been made of it in this process, such as the derivative.
    """

    fun_name: str
    in_tree: Any
    out_tree: Any
    in_avals: tuple[ArrayType, ...]
    out_avals: tuple[ArrayType, ...]
    nr_devices: int
    stablehlo_version: str
    calling_convention_version: int
    disabled_safety_checks: tuple[DisabledSafetyCheck, ...]
    _program: PortableProgram
    _consts: tuple[Any, ...]
    # By operand (closed-over arrays first) and by result.
    _in_splits: tuple[Split | None, ...]
    _out_splits: tuple[Split | None, ...]
    # How messages call the leaves of the arguments.
    _names: tuple[str, ...]
    _make_vjp: Callable[[], Exported] | None
    # The derivative, once it has been made, and the functions with derivatives, by mesh.
    _made: dict[Any, Any] = dataclasses.field(default_factory=dict)

    @property
    def platforms(self) -> tuple[str, ...]:
        """The platforms that it was exported for."""
        return self._program.platforms

    @property
    def in_shardings(self) -> tuple[NamedSharding | None, ...]:
        """How the leaves of the arguments are split."""
        return _shardings(self._in_splits[len(self._consts) :])

    @property
    def out_shardings(self) -> tuple[NamedSharding | None, ...]:
        """How the leaves of the result are split."""
        return _shardings(self._out_splits)

    # Under the names of `jax.export`.

    @property
    def mlir_module_serialized(self) -> bytes:
        """The StableHLO for the first platform, as a portable artifact."""
        return self._program.artifact(self.platforms[0])

    @property
    def module_kept_var_idx(self) -> tuple[int, ...]:
        """Which leaves of the arguments the module takes: all."""
        return tuple(range(len(self.in_avals)))

    @property
    def uses_global_constants(self) -> bool:
        """Whether the module reads sizes at run time: they are filled in before."""
        return False

    @property
    def in_shardings_hlo(self) -> tuple[Any, ...]:
        """How the leaves of the arguments are split, as the compiler's shardings; None if that
        is left to it."""
        return _compilers(self._in_splits[len(self._consts) :], self.in_avals)

    @property
    def out_shardings_hlo(self) -> tuple[Any, ...]:
        """How the leaves of the result are split, as the compiler's shardings."""
        return _compilers(self._out_splits, self.out_avals)

    @property
    def ordered_effects(self) -> tuple[Any, ...]:
        """Its ordered effects: a function with effects is not exported."""
        return ()

    @property
    def unordered_effects(self) -> tuple[Any, ...]:
        """Its other effects: a function with effects is not exported."""
        return ()

    def in_shardings_jax(self, mesh: Mesh) -> tuple[Sharding | None, ...]:
        """How the leaves of the arguments are split, over the devices of a mesh."""
        return tuple(
            None if split is None else split.on(mesh.device_list)
            for split in self._in_splits[len(self._consts) :]
        )

    def out_shardings_jax(self, mesh: Mesh) -> tuple[Sharding | None, ...]:
        """How the leaves of the result are split, over the devices of a mesh."""
        return tuple(None if s is None else s.on(mesh.device_list) for s in self._out_splits)

    def __repr__(self) -> str:
        ins, outs = (", ".join(map(str, types)) for types in (self.in_avals, self.out_avals))
        return f"<Exported {self.fun_name}: ({ins}) -> ({outs}) on {', '.join(self.platforms)}>"

    @api_boundary("export")
    def mlir_module(self, platform: str | None = None) -> str:
        """The StableHLO text for a platform, by default the first one; closed-over arrays are the
        first arguments of `main`. Raises WeftValueError for one that it was not exported for."""
        data = self._program.artifact(platform or self.platforms[0])
        return str(portable_artifact.from_portable_artifact(data))

    @api_boundary("export.serialize")
    def serialize(self, vjp_order: int = 0) -> bytes:
        """The function as bytes, with its derivatives in reverse mode up to an order.

        The bytes hold no Python objects and no paths of this machine. Raises WeftTypeError for an
        invalid order, and WeftValueError for a function that was itself serialized with fewer
        derivatives.

        >>> import weft
        >>> from weft import export
        >>> exported = export.export(weft.jit(lambda x: x * x))(
        ...     weft.ShapeDtypeStruct((), "float32")
        ... )
        >>> again = export.deserialize(exported.serialize(vjp_order=1))
        >>> weft.grad(again.call)(3.0)
        Array(6., dtype=float32, weak_type=True)
        """
        return serialize_exported(self, vjp_order)

    def has_vjp(self) -> bool:
        """Whether there is a derivative: it was exported here, or serialized with one."""
        return self._make_vjp is not None

    @api_boundary("export")
    def vjp(self) -> Exported:
        """The derivative in reverse mode, as an exported function.

        It takes the leaves of the arguments and then a cotangent for each leaf of the result that
        has a derivative (floating-point and complex dtypes), and returns a list of the cotangents
        of those leaves of the arguments that have one. It computes the residuals again.
        Raises WeftValueError if it was serialized without.
        """
        if self._make_vjp is None:
            message = f"the exported {self.fun_name} has no derivative (of this order)"
            got = "a program that was serialized without its vjp"
            wanted = "one that was serialized with it"
            text = "where it is exported, write serialize(vjp_order=1), or a higher order"
            fix = Fix("vjp_order", text, {"vjp_order": 1})
            raise WeftValueError(message, got=got, wanted=wanted, fix=fix)
        if "vjp" not in self._made:
            found = self._made["vjp"] = self._make_vjp()
            found._program.num_linear = len(found.in_avals) - len(self.in_avals)
        out: Exported = self._made["vjp"]
        return out

    @api_boundary("export")
    def call(self, *args: Any, **kwargs: Any) -> Any:
        """Calls the function with arguments of the structure, shapes and dtypes of the export.

        Under `jit` it becomes a part of the module around it; under `vmap` it runs once per
        element, in a loop; it can be differentiated as often as it was serialized with derivatives.
        A function for several devices runs on those that its arguments are on, those of the mesh in
        force, or the first ones. Arguments are not donated.

        Raises TreeError, ShapeError, DTypeError and WeftTypeError, naming the argument, for other
        arguments, and WeftValueError on another platform or with another number of devices.
        """
        leaves, structure = tree.flatten((args, kwargs))
        if exact_structure(structure) != exact_structure(self.in_tree):
            raise self._other_structure(structure)
        operands = [
            self._operand(leaf, want, name)
            for leaf, want, name in zip(leaves, self.in_avals, self._names, strict=True)
        ]
        return self.out_tree.unflatten(self._apply(operands))

    def _other_structure(self, structure: Any) -> TreeError:
        differences = tree.equality_errors(structure, self.in_tree)
        shown = "; ".join(f"{_place(path)}: {text}" for path, text in differences)
        shown = shown or "numbers among the static data are of another class or sign"
        message = f"the exported {self.fun_name} takes arguments of another structure: {shown}"
        fix = Fix("structure", "pass (args, kwargs) of that structure", {"structure": shown})
        return TreeError(message, got=str(structure), wanted=str(self.in_tree), fix=fix)

    def _operand(self, leaf: Any, want: ArrayType, name: str) -> Any:
        """A leaf of the arguments; raises an error with its name if it has another type."""
        if isinstance(leaf, (np.ndarray, np.generic)) and leaf.dtype == want.dtype:
            # Exactly what is wanted, also where the default width here is another one.
            if leaf.shape == want.shape:
                return as_stored(np.asarray(leaf), want)
        try:
            got = type_of(user_value(leaf))
        except WeftTypeError:
            raise WeftTypeError(
                f"the exported {self.fun_name}: {name} is no array",
                got=f"{leaf!r:.100} of class {type(leaf).__name__}",
                wanted=str(want),
            ) from None
        if got.shape == want.shape and got.dtype == want.dtype:
            return user_value(leaf)
        again = "or export the function again for this one"
        what, fix = "dtype", Fix("dtype", f"pass an array of dtype {want.dtype.name}, {again}")
        if got.shape != want.shape:
            text = f"pass an array of shape {want.shape}, {again}"
            what, fix = "shape", Fix("shape", text, {"shape": want.shape})
        elif isinstance(got.dtype, np.dtype) and isinstance(want.dtype, np.dtype):
            text = f"pass {conversion_text(name, leaf, want.dtype)}"
            fix = Fix("cast", text, {"dtype": want.dtype})
        raise (ShapeError if what == "shape" else DTypeError)(
            f"the exported {self.fun_name}: {name} has another {what} than it was exported for",
            got=f"{got} for {name}",
            wanted=str(want),
            fix=fix,
        )

    def _apply(self, leaves: Sequence[Any], devices: Sequence[Any] = ()) -> list[Any]:
        """The results for leaves of the exported types, on certain devices."""
        operands = [*self._consts, *leaves]
        if self.nr_devices == 1:
            return list(self._function(None)(*operands))
        devices = devices or self._devices(leaves)
        self._check_places(operands, devices)
        what = f"the exported {self.fun_name}"
        names = [*["a closed-over array"] * len(self._consts), *self._names]
        placed = [
            x if split is None else constrain(x, split.on(devices), what, name)
            for x, split, name in zip(operands, self._in_splits, names, strict=True)
        ]
        outs = self._function(Mesh(devices, ("devices",)))(*placed)
        return [
            x if split is None else constrain(x, split.on(devices), what, "a result")
            for x, split in zip(outs, self._out_splits, strict=True)
        ]

    def _devices(self, leaves: Sequence[Any]) -> list[Any]:
        """The devices that run the function."""
        for place in map(_committed_place, leaves):
            if isinstance(place, Sharding) and place.num_devices == self.nr_devices:
                return list(place.device_list)
        mesh = mesh_in_force()
        if isinstance(mesh, Mesh) and mesh.size == self.nr_devices:
            return list(mesh.device_list)
        found = client.devices()
        if len(found) < self.nr_devices:
            message = f"the exported {self.fun_name} runs on {self.nr_devices} devices together"
            got = f"{len(found)} devices"
            fix = Fix(
                "devices",
                "call it where there are as many; on a CPU set the environment variable "
                f"WEFT_NUM_CPU_DEVICES={self.nr_devices} before Python starts",
                {"WEFT_NUM_CPU_DEVICES": self.nr_devices},
            )
            raise WeftValueError(message, got=got, wanted=f"{self.nr_devices} devices", fix=fix)
        return list(found[: self.nr_devices])

    def _check_places(self, operands: Sequence[Any], devices: Sequence[Any]) -> None:
        """Raises WeftNotImplementedError within a shard_map, and WeftValueError for an operand that
        is committed to other devices."""
        if mesh_axes():
            raise WeftNotImplementedError(
                f"the exported {self.fun_name} runs on {self.nr_devices} devices together, and a "
                "shard_map around it has split its arguments over them already",
                got="a call inside of a shard_map",
                wanted="a call outside of it, or a program exported for one device",
                fix=Fix("outside", "call it outside of the shard_map"),
            )
        names = [*["a closed-over array"] * len(self._consts), *self._names]
        for x, name in zip(operands[: len(names)], names, strict=True):
            place = _committed_place(x)
            found = place.device_list if isinstance(place, Sharding) else (place,)
            if place is not None and set(found) != set(devices):
                raise WeftValueError(
                    f"the exported {self.fun_name}: {name} was put on other devices than those it "
                    "runs on",
                    got=f"an array on {', '.join(map(str, found))}",
                    wanted=f"arrays on all of {', '.join(map(str, devices))}, or such as were put "
                    "nowhere on purpose",
                    fix=Fix(
                        "device_put",
                        "put it on these devices: weft.device_put(x, weft.NamedSharding(mesh, "
                        "weft.P())), with a mesh over them",
                        {"devices": tuple(devices)},
                    ),
                )

    def _function(self, mesh: Any) -> Callable[..., list[Any]]:
        """A function of the operands, differentiable if its derivative was exported."""
        out: Callable[..., list[Any]] | None = self._made.get(mesh)
        if out is None:
            out = self._new_function(mesh)
            if mesh is None:
                # An eager call finds it compiled.
                out = jit(out, inline=True)
            self._made[mesh] = out
        return out

    def _new_function(self, mesh: Any) -> Callable[..., list[Any]]:
        program = self._program

        def run(*operands: Any) -> list[Any]:
            return list(call_exported_p.bind(*operands, program=program, mesh=mesh))

        if self._make_vjp is None:
            return run
        run.__name__ = program.name
        program.pullback = self._pull_back
        n = len(self._consts)

        def forward(*operands: Any) -> tuple[Any, list[Any]]:
            # With its rule: a derivative around this one needs it too.
            return function(*operands), list(operands[n:])

        def backward(leaves: list[Any], cotangents: list[Any]) -> tuple[Any, ...]:
            return tuple(self._pull_back([*self._consts, *leaves], cotangents, mesh))

        function = custom_vjp(run)
        function.defvjp(forward, backward)
        return function

    def _pull_back(
        self, operands: Sequence[Any], cotangents: Sequence[Any], mesh: Any
    ) -> list[Any]:
        """The cotangents of the operands, None for those without one."""
        leaves = operands[len(self._consts) :]
        given = keep_marked([*map(has_tangent, self.out_avals)], cotangents)
        devices = () if mesh is None else mesh.device_list
        found = self.vjp()._apply([*leaves, *given], devices)
        own = scatter_to_marked([*map(has_tangent, self.in_avals)], found)
        return [*[None] * len(self._consts), *own]

    def _for_one_size(self) -> Exported:
        """The function with numbers for symbolic dimensions."""
        return self

    def _sizes_to_data(self, sections: Any) -> dict[str, Any] | None:
        """The data for symbolic dimensions; None if there are none."""
        return None

    def check_custom_calls(self) -> None:
        """Raises WeftValueError for custom calls that may mean something else in this process."""
        for data in self._program.artifacts.values():
            module = portable_artifact.from_portable_artifact(data)
            checks = self.disabled_safety_checks
            check_custom_calls(self.fun_name, module, checks, "export.deserialize")
