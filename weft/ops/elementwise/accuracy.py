"""How exact elementary functions are asked to be: what their keyword `accuracy` takes.

A request bounds an error that a compiler may make in return for speed. weft gives one result, that
of XLA's default, which is the most exact one that its compilers for CPUs and NVIDIA GPUs have.
"""

from __future__ import annotations

import dataclasses
import enum
from typing import Any, TypeAlias

from weft.argument_errors import unknown_option
from weft.errors import WeftValueError, api_boundary


class AccuracyMode(enum.Enum):
    """An accuracy by name: the best there is, or the compiler's default."""

    HIGHEST = 1
    DEFAULT = 2


@dataclasses.dataclass(frozen=True)
class Tolerance:
    """A bound for errors: absolute, relative, and in units in the last place.

    Args:
        atol: The largest absolute error, 0 for no such bound.
        rtol: The largest error relative to the exact result, 0 for no such bound.
        ulps: The largest error in units in the last place of the result, 0 for no such bound.

    Raises WeftValueError for negative bounds, and where none is positive.

    >>> lax.exp(1.0, accuracy=lax.Tolerance(rtol=1e-5))
    Array(2.7182817, dtype=float32, weak_type=True)
    """

    atol: float = 0.0
    rtol: float = 0.0
    ulps: int = 0

    @api_boundary
    def __post_init__(self) -> None:
        bounds = (self.atol, self.rtol, self.ulps)
        if min(bounds) < 0 or not any(bounds):
            raise WeftValueError(
                "a Tolerance has bounds of at least 0, one of them positive",
                got=f"atol={self.atol}, rtol={self.rtol}, ulps={self.ulps}",
                wanted="atol, rtol or ulps > 0",
            )


Accuracy: TypeAlias = Tolerance | AccuracyMode | None


def check_accuracy(operation: str, accuracy: Any) -> None:
    """Raises WeftValueError for anything that is not an accuracy."""
    if not isinstance(accuracy, (Tolerance, AccuracyMode)):
        wanted = "None, a lax.Tolerance or a lax.AccuracyMode"
        raise unknown_option(operation, "accuracy", accuracy, wanted, use=None)
