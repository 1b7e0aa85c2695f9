"""The names of `jax.extend.mlir`: StableHLO modules as portable artifacts."""

from __future__ import annotations

from typing import Any

from weft.errors import WeftNotImplementedError
from weft.runtime.stablehlo.mlir import parse
from weft.runtime.stablehlo.portable_artifact import from_portable_artifact, portable_artifact

__all__ = [
    "deserialize_portable_artifact", "hlo_to_stablehlo", "lower_with_sharding_in_types",
    "refine_polymorphic_shapes", "serialize_portable_artifact",
]  # fmt: skip


def serialize_portable_artifact(module: Any, target: str = "", *_: Any) -> bytes:
    """A module as bytes that other releases read; the oldest version that can hold it."""
    own = parse(module) if isinstance(module, (str, bytes)) else module
    return portable_artifact(own)[0]


def deserialize_portable_artifact(*context_and_artifact: Any) -> Any:
    """The module of a portable artifact; an MLIR context may come first."""
    return from_portable_artifact(context_and_artifact[-1])


def hlo_to_stablehlo(hlo: bytes) -> Any:
    """Raises WeftNotImplementedError: weft makes StableHLO of programs, not of HLO."""
    raise WeftNotImplementedError(
        "StableHLO of an HLO module",
        operation="hlo_to_stablehlo",
        wanted="the module of weft.jit(f).lower(x)",
    )


def refine_polymorphic_shapes(module: Any, *_: Any, **__: Any) -> Any:
    """Raises WeftNotImplementedError: modules of weft have static shapes."""
    raise WeftNotImplementedError(
        "static shapes for a module with symbolic ones",
        operation="refine_polymorphic_shapes",
        wanted="a module with static shapes",
    )


def lower_with_sharding_in_types(ctx: Any, op: Any, aval: Any) -> Any:
    """The value itself: types of weft have no shardings."""
    return op
