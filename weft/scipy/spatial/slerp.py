"""Spherical linear interpolation between rotations."""

from __future__ import annotations

from typing import Any, NamedTuple

import weft.numpy as jnp
from weft import dtypes
from weft.argument_errors import wrong_shape
from weft.core.types import type_of
from weft.errors import api_boundary
from weft.kinds.checks import check_dimensions, check_numbers, convert, inexact
from weft.scipy.spatial.rotation import Rotation, check_rotation


class Slerp(NamedTuple):
    """Interpolates between rotations at given times: a pytree, made by `init`.

    From each to the next the path is the shortest, at constant speed (K. Shoemake, Animating
    rotation with quaternion curves, 1985). Called with times, (), or (n,), it gives a `Rotation`;
    a time outside extrapolates the first or the last path.

    Args:
        times: The times of all rotations, (n,), rising.
        timedelta: The lengths of the paths in time, (n - 1,).
        rotations: The rotations at which the paths begin, n - 1 of them.
        rotvecs: The rotation vectors from each of these to the next, (n - 1, 3).

    >>> import weft.numpy as jnp
    >>> turns = Rotation.from_euler("z", jnp.array([0.0, 90.0]), degrees=True)
    >>> Slerp.init(jnp.array([0.0, 1.0]), turns)(0.5).as_rotvec(degrees=True).round(2)
    Array([ 0.,  0., 45.], dtype=float32)
    """

    times: Any
    timedelta: Any
    rotations: Rotation
    rotvecs: Any

    @classmethod
    @api_boundary
    def init(cls, times: Any, rotations: Rotation) -> Slerp:
        """times: (n,), rising; rotations: n of them, n at least 2.

        Raises ShapeError, DTypeError and WeftTypeError.
        """
        name = "Slerp.init"
        check_rotation(name, rotations)
        times = _times(name, times)
        check_dimensions(name, "times", times, 1, 1)
        of, q = type_of(times), type_of(rotations.quat)
        if q.ndim != 2 or of.shape[0] != q.shape[0] or q.shape[0] < 2:
            got = f"times: {of}, quat: {q}"
            raise wrong_shape(name, got, "a time for each of two rotations or more")
        before, after = Rotation(rotations.quat[:-1]), Rotation(rotations.quat[1:])
        return cls(times, jnp.diff(times), before, (before.inv() * after).as_rotvec())

    @api_boundary
    def __call__(self, times: Any) -> Rotation:
        """The rotations at some times, () or (n,)."""
        times = _times("Slerp", times)
        check_dimensions("Slerp", "times", times, 0, 1)
        index = jnp.searchsorted(self.times, times, side="right") - 1
        index = jnp.clip(index, 0, type_of(self.timedelta).shape[0] - 1)
        part = (times - self.times[index]) / self.timedelta[index]
        turn = Rotation.from_rotvec(self.rotvecs[index] * part[..., None])
        return Rotation(self.rotations.quat[index]) * turn


def _times(operation: str, times: Any) -> Any:
    value = jnp.asarray(times) if isinstance(times, (list, tuple)) else times
    check_numbers(operation, "times", value, dtypes.REAL)
    value = jnp.asarray(value)
    return convert(value, inexact(type_of(value).dtype))
