"""`fwd_and_bwd`: the two passes of reverse mode as two functions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from weft.api.autodiff import vjp
from weft.api.jit import jit


def fwd_and_bwd(
    fun: Callable[..., Any],
    argnums: int | Sequence[int],
    has_aux: bool = False,
    jitted: bool = True,
) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """The forward pass and the backward pass of a function, as two functions.

    `fwd(*args)` returns the result and the residuals (and what `fun` returns beside its result,
    with `has_aux`); `bwd(residuals, cotangent)` returns the cotangents of the arguments that
    `argnums` says: a tuple where it is a sequence. Both are jitted unless `jitted` is False. The
    residuals are a tree, so they can be kept, moved and passed to other functions. Raises what
    `vjp` does.

    >>> import weft, weft.numpy as jnp
    >>> fwd, bwd = weft.fwd_and_bwd(lambda x, y: x * jnp.sin(y), argnums=(0, 1))
    >>> out, residuals = fwd(2.0, 0.0)
    >>> bwd(residuals, 1.0)
    (Array(0., dtype=float32, weak_type=True), Array(2., dtype=float32, weak_type=True))
    """
    single = isinstance(argnums, int)
    numbers = (argnums,) if isinstance(argnums, int) else tuple(argnums)

    def fwd(*args: Any, **kwargs: Any) -> Any:
        places = [number % len(args) for number in numbers]

        def of_some(*some: Any) -> Any:
            full = list(args)
            for place, value in zip(places, some, strict=True):
                full[place] = value
            return fun(*full, **kwargs)

        return vjp(of_some, *[args[place] for place in places], has_aux=has_aux)

    def bwd(residuals: Any, cotangent: Any) -> Any:
        found = residuals(cotangent)
        return found[0] if single else found

    return (jit(fwd), jit(bwd)) if jitted else (fwd, bwd)
