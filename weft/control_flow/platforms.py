"""`platform_dependent`: one function of several, by the platform that a program is compiled for.

The number of the branch is an operand without dimensions that becomes a constant where a module is
lowered, when the platform is known; `cond` lowers the one branch that a constant chooses.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from weft import dtypes
from weft.control_flow.cond import bind_branches
from weft.core.types import ArrayType
from weft.errors import Fix, WeftNotImplementedError, WeftTypeError, api_boundary
from weft.interpreters.staging import check_function
from weft.ops.declare import primitive
from weft.runtime import stablehlo

# Other names of platforms, by the one that lowering has.
_ALSO = {"cuda": ("gpu",), "rocm": ("gpu",)}


@api_boundary
def platform_dependent(
    *args: Any, default: Callable[..., Any] | None = None, **per_platform: Callable[..., Any]
) -> Any:
    """`per_platform[platform](*args)` on the platform that computes it, elsewhere `default(*args)`.

    The keywords are names of platforms ("cpu", "cuda", "gpu", "tpu", "rocm"). All functions are
    traced, and return one structure, shapes and dtypes; only one becomes part of a program.
    Derivatives and `vmap` are those of `switch`. Raises WeftTypeError if no function is given,
    WeftNotImplementedError if a program is compiled for a platform for which there is none.

    Args:
        args: The arguments of the functions, trees of arrays.
        default: The function for all platforms that are not named; None if there is none.
        per_platform: For each platform by its name, a function of `args`.

    >>> lax.platform_dependent(3.0, cpu=lambda x: x + 1.0, default=lambda x: x)
    Array(4., dtype=float32, weak_type=True)
    """
    functions = dict(per_platform)
    names = tuple(functions)
    branches = [*functions.values(), *([] if default is None else [default])]
    if not branches:
        raise WeftTypeError(
            "platform_dependent takes at least one function",
            got="none",
            wanted="functions by the names of platforms, or default=",
        )
    for name, function in (*functions.items(), ("default", default)):
        if function is not None:
            check_function("platform_dependent", function, f"as {name}")
    platforms = (*names, *(() if default is None else (None,)))
    index = platform_index_p.bind(platforms=platforms)
    shown = tuple("default" if name is None else name for name in platforms)
    return bind_branches("platform_dependent", index, branches, args, shown)


def platform_index_type(*, platforms: tuple[str | None, ...]) -> ArrayType:
    return ArrayType((), dtypes.int32)


def platform_index_lower(context: Any, *, platforms: tuple[str | None, ...]) -> Any:
    for name in (context.platform, *_ALSO.get(context.platform, ()), None):
        if name in platforms:
            return stablehlo.constant(platforms.index(name), (), np.int32)
    raise WeftNotImplementedError(
        f"platform_dependent has no function for the platform {context.platform!r}",
        operation="platform_dependent",
        got=f"functions for {', '.join(map(str, platforms))}",
        wanted=f"one for {context.platform!r}, or default=",
        fix=Fix("default", f"pass {context.platform}= or default="),
    )


platform_index_p = primitive(
    "platform_index", type_rule=platform_index_type, lower=platform_index_lower, flops="none"
)
