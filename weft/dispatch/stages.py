"""The stages of compiling by hand: traced, lowered, compiled.

`jit(f).trace(*args)` gives the jaxpr, `.lower()` the module, `.compile()` the executable
(`compiled.py`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

from weft import tree
from weft.arrays.array import Array, array_at
from weft.core import rules
from weft.core.jaxpr import ClosedJaxpr
from weft.core.shape_struct import described_type
from weft.core.trace import Tracer
from weft.core.types import ArrayType
from weft.dispatch.compiled import Compiled, specialization_of
from weft.dispatch.jit_shardings import check_arguments, placed_alike
from weft.dispatch.staged_call import ArgInfo, Stage, StagedCall
from weft.errors import Fix, WeftNotImplementedError, WeftTypeError, WeftValueError, api_boundary
from weft.ops.elementwise.convert import beside_float64
from weft.ops.structural.sharding_constraint import as_format
from weft.refs.reference import Ref, contents
from weft.runtime import client
from weft.sharding import Sharding
from weft.tracing.argument_names import argument_path

__all__ = ["ArgInfo", "Compiled", "CompilerOptions", "Lowered", "Traced", "Wrapped", "trace"]

CompilerOptions = dict[str, str | bool | int | float]
"""Options of XLA by name, for `jit` and `Lowered.compile`."""


@runtime_checkable
class Wrapped(Protocol):
    """What `weft.jit` returns, for annotations: a callable that can also be staged by hand."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Runs the compiled function."""

    def trace(self, *args: Any, **kwargs: Any) -> Traced:
        """Traces without running."""

    def lower(self, *args: Any, **kwargs: Any) -> Lowered:
        """Traces and lowers without running."""


_PLATFORMS = frozenset({"cpu", "cuda", "rocm", "tpu"})
_ALIASES = {"gpu": "cuda"}


@api_boundary
def trace(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Traced:
    """Traces a `Jitted` function for arguments that may be arrays or ShapeDtypeStructs."""
    static, dynamic = function._split(args, kwargs)
    leaves, in_tree = tree.flatten(dynamic)
    leaves = list(beside_float64(leaves))
    dynamic = in_tree.unflatten(leaves)
    try:
        types: list[Any] = [x.type if type(x) is Ref else described_type(x) for x in leaves]
    except WeftTypeError as error:
        raise function._bad_argument(dynamic, error) from None
    given = [
        stand_in(*((contents(x), aval.inner) if type(x) is Ref else (x, aval)), function, path)
        for (path, x), aval in zip(tree.leaves_with_path(dynamic), types, strict=True)
    ]
    traced = function._find_or_trace(static, types, in_tree)
    formats = function._shardings.argument_formats(function._name, static, in_tree)
    check_arguments(function, given, formats, in_tree, "in_shardings says")
    placed = [
        x if place is layout is None else placed_alike(x, place, layout, says_layout(leaf))
        for leaf, x, (place, layout) in zip(leaves, given, formats, strict=True)
    ]
    return Traced(StagedCall(function, traced, static, in_tree, placed))


def stand_in(leaf: Any, of: ArrayType, function: Any, path: Any) -> Array:
    """An array without values with the type, sharding and layout of an argument."""
    if type(leaf) is Array:
        return array_at(None, of, leaf._shown_place(), leaf._layout())
    format = None if isinstance(leaf, Tracer) else getattr(leaf, "sharding", None)
    if format is None:
        return Array(None, of, of)
    if getattr(leaf, "layout", None) is not None:
        format = leaf.format
    operation, what = f"jit of {function._name}", argument_path(function._function, path)
    place, layout = as_format(format, operation, what, of.shape)
    if isinstance(place, Sharding):
        place.check_shape(operation, what, of.shape)
    return array_at(None, of, place, layout)


def says_layout(leaf: Any) -> bool:
    """Whether an argument has a layout: a struct with a sharding alone leaves it open."""
    return type(leaf) is Array or getattr(leaf, "layout", None) is not None


class Traced(Stage):
    """A traced function: its jaxpr, before anything is compiled.

    >>> import weft, weft.numpy as jnp
    >>> traced = weft.jit(lambda x: x + 1).trace(weft.ShapeDtypeStruct((3,), "float32"))
    >>> traced.jaxpr
    { lambda ; a:f32[3]. let
        b:f32[3] = add a 1.0:f32[]
      in (b,) }
    >>> traced.out_info
    ShapeDtypeStruct(shape=(3,), dtype=f32)
    """

    def __init__(self, call: StagedCall) -> None:
        self._call = call

    @property
    def jaxpr(self) -> ClosedJaxpr:
        """The jaxpr with its closed-over values."""
        traced = self._call.traced
        return ClosedJaxpr(traced.jaxpr, traced.consts)

    @api_boundary("lower")
    def lower(self, *, lowering_platforms: str | Sequence[str] | None = None) -> Lowered:
        """Lowers the jaxpr to a StableHLO module.

        `lowering_platforms` names the platform that it is for ("cpu", "cuda", "rocm" or "tpu"); by
        default that of the devices here. A module for another one can be read and not compiled.
        Raises WeftTypeError for a function that closes over traced values, WeftValueError for an
        unknown platform, and WeftNotImplementedError for several at once.
        """
        return Lowered(self._call, platform_of(lowering_platforms))


def platform_of(given: str | Sequence[str] | None) -> str:
    current = client.backend().platform
    if given is None:
        return current
    names = [given] if isinstance(given, str) else list(given)
    names = list(dict.fromkeys(_ALIASES.get(name, name) for name in names))
    known = {*_PLATFORMS, current, *(platform for _, platform in rules.lower_for_platform)}
    unknown = [name for name in names if name not in known]
    if unknown or not names:
        message = "lower: no platform has this name" if unknown else "lower: no platform is named"
        got = f"lowering_platforms={given!r:.100}"
        wanted = f"one of {', '.join(sorted(known))}"
        fix = Fix("platform", f"pass {current!r}, or nothing", {"lowering_platforms": current})
        raise WeftValueError(message, got=got, wanted=wanted, fix=fix)
    if len(names) > 1:
        message = "lower: a program is lowered for one platform at a time"
        got = f"lowering_platforms={tuple(names)}"
        wanted = "one platform"
        fix = Fix("platform", f"lower it for {names[0]!r}", {"lowering_platforms": names[0]})
        raise WeftNotImplementedError(message, got=got, wanted=wanted, fix=fix)
    return names[0]


def dialect_of(given: str | None) -> str:
    if given not in (None, "stablehlo", "hlo"):
        message = "a lowered program is shown in StableHLO or in HLO"
        got = f"dialect={given!r:.100}"
        fix = Fix("dialect", 'pass "stablehlo"', {"dialect": "stablehlo"})
        raise WeftValueError(message, got=got, wanted='"stablehlo" or "hlo"', fix=fix)
    return given or "stablehlo"


class Lowered(Stage):
    """A lowered function: its module, as the compiler is given it.

    >>> import weft
    >>> lowered = weft.jit(lambda x: x + 1).lower(weft.ShapeDtypeStruct((3,), "float32"))
    >>> "stablehlo.add" in lowered.as_text()
    True
    >>> lowered.cost_analysis()["flops"]
    3.0
    """

    def __init__(self, call: StagedCall, platform: str) -> None:
        self._call = call
        self._platform = platform
        self._specialization = specialization_of(call)
        self._lowered = self._specialization.lower(platform)
        self._module = self._lowered.context.module

    @api_boundary("as_text")
    def as_text(self, dialect: str | None = None, *, debug_info: bool = False) -> str:
        """The module as text, in "stablehlo" or "hlo", with source locations if asked for. Nothing
        is optimized yet. Raises WeftValueError for another dialect."""
        if dialect_of(dialect) == "hlo":
            return client.backend().hlo_text(self._module.ir, debug_info)
        return str(self._module.text(debug_info))

    @api_boundary("compiler_ir")
    def compiler_ir(self, dialect: str | None = None) -> Any:
        """The compiler's own object: the MLIR module ("stablehlo") or XLA's computation ("hlo")."""
        if dialect_of(dialect) == "hlo":
            return client.backend().to_hlo(self._module.ir)
        return self._module.ir

    @api_boundary("cost_analysis")
    def cost_analysis(self) -> dict[str, float]:
        """XLA's estimate of the cost before anything is optimized: "flops", "bytes accessed", … A
        loop's body is counted once. See `Compiled.cost_analysis` for the optimized executable."""
        return dict(client.backend().estimated_cost(self._module.ir))

    @api_boundary("compile")
    def compile(self, compiler_options: Mapping[str, Any] | None = None) -> Compiled:
        """Compiles the module. `compiler_options` go to XLA and win over those given to `jit`.
        Raises WeftValueError for an option that XLA does not have, and for a module that was
        lowered for another platform than that of the devices here."""
        current = client.backend().platform
        if self._platform != current:
            message = f"a program lowered for {self._platform} cannot be compiled here"
            got = f"a program for {self._platform}"
            fix = Fix("platform", f"lower it for {current}: traced.lower()")
            raise WeftValueError(message, got=got, wanted=f"one for {current}", fix=fix)
        options = dict(self._call.function._options.compiler_options) | dict(compiler_options or {})
        return Compiled(
            self._call, self._specialization, self._lowered, tuple(sorted(options.items()))
        )
