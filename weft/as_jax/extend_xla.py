"""The names of `jax.extend.xla`, `jax.extend.lowering` and `jax.extend.ifrt_programs`."""

from __future__ import annotations

import enum
import types
from collections.abc import Callable
from typing import Any

from weft.errors import WeftNotImplementedError
from weft.lowering.module import LoweringContext as LoweringRuleContext
from weft.runtime import stablehlo

__all__ = [
    "JaxIrContext", "LoweringRuleContext", "PipelineStage", "clear_hlo_module_transformation",
    "ifrt_programs", "make_plugin_compile_options", "make_plugin_program",
    "register_hlo_module_transformation",
]  # fmt: skip


class PipelineStage(enum.Enum):
    """Where in XLA's pipeline a program of the user's would change modules."""

    PRE_SCHEDULER = 0
    POST_SCHEDULER = 1


def register_hlo_module_transformation(
    callback: Callable[[bytes], bytes | None], *, name: str, **_: Any
) -> None:
    """Raises WeftNotImplementedError: jaxlib's compiler is not asked to call Python."""
    raise WeftNotImplementedError(
        f"the transformation {name!r} of HLO modules",
        operation="register_hlo_module_transformation",
        wanted="a lowering rule (jax.interpreters.mlir.register_lowering)",
    )


def clear_hlo_module_transformation(name: str, *_: Any, **__: Any) -> bool:
    """False: none can be registered."""
    return False


class JaxIrContext:
    """Makes the MLIR context that weft's modules are in."""

    def __new__(cls, *_: Any, **__: Any) -> Any:
        """The context."""
        return stablehlo.context()


def __getattr__(name: str) -> Any:
    """The dialects of MLIR beside those of XLA, as a registry."""
    if name == "upstream_dialects":
        return stablehlo.ir.DialectRegistry()
    raise AttributeError(f"jax.extend has no {name!r} in weft")


def make_plugin_program(data: Any) -> Any:
    """Raises WeftNotImplementedError: jaxlib's plug-in programs are not run by weft."""
    raise WeftNotImplementedError(
        "a program of a plug-in's own",
        operation="make_plugin_program",
        wanted="a program of weft's",
    )


make_plugin_compile_options = make_plugin_program

# JAX keeps these functions of jaxlib's in an object of this name.
ifrt_programs = types.SimpleNamespace(
    make_plugin_program=make_plugin_program, make_plugin_compile_options=make_plugin_compile_options
)
