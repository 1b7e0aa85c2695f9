"""Rotations in three dimensions, one or many, in any of their forms.

Spherical linear interpolation between rotations.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import weft.numpy as jnp
from weft import dtypes
from weft.arrays.array import Array
from weft.core.types import type_of
from weft.errors import DTypeError, Fix, WeftTypeError, api_boundary
from weft.errors.argument_errors import wrong_shape, wrong_value
from weft.kinds.checks import (
    broadcast_shape,
    check_dimensions,
    check_numbers,
    convert,
    inexact,
    length_of,
    promote_values,
)
from weft.numpy.linalg.eigenvalues import eigh
from weft.ops.flags import check_flag
from weft.random.draw_arguments import check_key
from weft.random.gaussian import normal
from weft.scipy.spatial import quaternions


def _vectors(argument: str, x: Any, n: int) -> Any:
    """Checks floating vectors of n elements, one or a row of them."""
    check_dimensions(argument, x, 1, 2, dtypes.ORDERED)
    of = type_of(x)
    if of.shape[-1] != n:
        raise wrong_shape(f"{argument}: {of}", f"{argument} of shape ({n},) or (k, {n})")
    return convert(x, inexact(of.dtype))


def _floating(dtype: Any) -> Any:
    """The dtype of quaternions. Raises DTypeError."""
    try:
        out = dtypes.requested(dtype)
    except DTypeError as error:
        fields = {"got": error.got, "wanted": error.wanted, "fix": error.fix}
        raise DTypeError(error.message, **fields) from None
    if out not in dtypes.FLOATING:
        message = "quaternions are floating-point numbers"
        got, wanted = f"dtype={dtypes.short_name(out)}", "a dtype such as 'float32'"
        fix = Fix("dtype", "pass dtype='float32', or leave it out", {"dtype": "float32"})
        raise DTypeError(message, got=got, wanted=wanted, fix=fix)
    return out


def _axes(seq: Any) -> str:
    letters = set(seq) if isinstance(seq, str) else {"?"}
    if not 1 <= len(seq if isinstance(seq, str) else "") <= 3 or not (
        letters <= set("xyz") or letters <= set("XYZ")
    ):
        got = f"seq={seq!r:.40}"
        raise wrong_value(got, 'one to three letters of "xyz", or of "XYZ", as seq')
    if any(a == b for a, b in zip(seq, seq[1:], strict=False)):
        raise wrong_value(f"seq={seq!r:.40}", "a seq whose neighbours differ")
    return seq


class Rotation(NamedTuple):
    """Rotations in three dimensions, as unit quaternions (x, y, z, w): a pytree of one array.

    quat: shape (4,), one rotation, or (n, 4), a row of them; made by the methods `from_...`, which
    normalize. p * q rotates by q and then by p.

    >>> import weft.numpy as jnp
    >>> turn = Rotation.from_euler("z", 90.0, degrees=True)
    >>> turn.apply(jnp.array([1.0, 0.0, 0.0])).round(3)
    Array([0., 1., 0.], dtype=float32)
    """

    quat: Any

    @classmethod
    @api_boundary
    def from_quat(cls, quat: Any) -> Rotation:
        """From quaternions (x, y, z, w), shape (4,) or (n, 4), of any norm but 0."""
        return cls(quaternions.unit(_vectors("quat", quat, 4)))

    @classmethod
    @api_boundary
    def from_rotvec(cls, rotvec: Any, degrees: bool = False) -> Rotation:
        """From vectors along the axis, of the length of the angle; shape (3,) or (n, 3)."""
        check_flag(degrees, "degrees")
        v = _vectors("rotvec", rotvec, 3)
        return cls(quaternions.from_rotvec(jnp.deg2rad(v) if degrees else v))

    @classmethod
    @api_boundary
    def from_mrp(cls, mrp: Any) -> Rotation:
        """From modified Rodrigues parameters: vectors along the axis of length tan(angle / 4)."""
        return cls(quaternions.from_mrp(_vectors("mrp", mrp, 3)))

    @classmethod
    @api_boundary
    def from_matrix(cls, matrix: Any) -> Rotation:
        """From orthogonal matrices of determinant 1, shape (3, 3) or (n, 3, 3)."""
        check_dimensions("matrix", matrix, 2, 3, dtypes.ORDERED)
        of = type_of(matrix)
        if of.shape[-2:] != (3, 3):
            raise wrong_shape(f"matrix: {of}", "a matrix of shape (3, 3) or (n, 3, 3)")
        return cls(quaternions.from_matrix(convert(matrix, inexact(of.dtype))))

    @classmethod
    @api_boundary
    def from_euler(cls, seq: str, angles: Any, degrees: bool = False) -> Rotation:
        """From one to three angles about axes, one after the other.

        seq: letters of "xyz", fixed axes, or of "XYZ", axes of the body. angles: for
        one letter a number, (n,) or (n, 1), otherwise (letters,) or (n, letters).
        """
        check_flag(degrees, "degrees")
        axes = _axes(seq)
        check_dimensions("angles", angles, 0, 2, dtypes.ORDERED)
        x = jnp.asarray(angles)
        given = type_of(x)
        x = convert(x, inexact(given.dtype))
        if len(axes) == 1 and given.ndim < 2:
            x = x[..., None]
        if x.ndim == 0 or x.shape[-1] != len(axes):
            raise wrong_shape(f"seq={seq!r}, angles: {given}", f"{len(axes)} angles")
        x = jnp.deg2rad(x) if degrees else x
        return cls(quaternions.euler_quaternion(x, axes=axes))

    @classmethod
    @api_boundary
    def identity(cls, num: int | None = None, dtype: Any = float) -> Rotation:
        """The identity, or `num` of it."""
        q = jnp.asarray([0.0, 0.0, 0.0, 1.0], dtype=_floating(dtype))
        return cls(q if num is None else jnp.tile(q, (length_of(num, "num"), 1)))

    @classmethod
    @api_boundary
    def random(cls, random_key: Any, num: int | None = None) -> Rotation:
        """A rotation drawn uniformly, or `num` of them: quaternions of normal numbers."""
        key = check_key(random_key)
        shape = (4,) if num is None else (length_of(num, "num"), 4)
        return cls(quaternions.unit(normal(key, shape)))

    @classmethod
    @api_boundary
    def concatenate(cls, rotations: Sequence[Rotation]) -> Rotation:
        """All rotations of several objects in one row."""
        for r in rotations:
            check_rotation(r)
        rows = [jnp.atleast_2d(r.quat) for r in rotations]
        return cls(jnp.concatenate(rows))

    @api_boundary
    def as_quat(self, canonical: bool = False, scalar_first: bool = False) -> Array:
        """Quaternions (x, y, z, w), or with `scalar_first` (w, x, y, z).

        canonical: of the two that rotate alike, the one with w above 0 (or else x, y, z).
        """
        check_flag(canonical, "canonical")
        check_flag(scalar_first, "scalar_first")
        q = quaternions.canonical(self.quat) if canonical else self.quat
        return jnp.roll(q, 1, axis=-1) if scalar_first else q

    @api_boundary
    def as_matrix(self) -> Array:
        """Orthogonal matrices, (3, 3) or (n, 3, 3)."""
        return quaternions.matrix(self.quat)

    @api_boundary
    def as_rotvec(self, degrees: bool = False) -> Array:
        """Vectors along the axis, of the length of the angle, which is at most half a turn."""
        check_flag(degrees, "degrees")
        v = quaternions.rotvec(self.quat)
        return jnp.rad2deg(v) if degrees else v

    @api_boundary
    def as_mrp(self) -> Array:
        """Modified Rodrigues parameters, of length 1 at most."""
        return quaternions.mrp(self.quat)

    @api_boundary
    def as_euler(self, seq: str, degrees: bool = False) -> Array:
        """Three angles about axes, as `from_euler` takes them; shape (3,) or (n, 3).

        Where the middle angle leaves only the sum or the difference of the others, the last one is
        0; there are no derivatives then.
        """
        check_flag(degrees, "degrees")
        axes = _axes(seq)
        if len(axes) != 3:
            raise wrong_value(f"seq={seq!r}", "a seq of three letters")
        angles = quaternions.euler(self.quat, axes=axes)
        return jnp.rad2deg(angles) if degrees else angles

    @api_boundary
    def apply(self, vectors: Any, inverse: bool = False) -> Array:
        """Rotated vectors, (3,) or (n, 3): one or n of both, element by element."""
        check_flag(inverse, "inverse")
        v = _vectors("vectors", vectors, 3)
        broadcast_shape(type_of(self.quat).shape[:-1], type_of(v).shape[:-1])
        q = quaternions.conjugate(self.quat) if inverse else self.quat
        return quaternions.rotate(*promote_values("Rotation.apply", q, v))

    @api_boundary
    def inv(self) -> Rotation:
        """The inverse rotations."""
        return Rotation(quaternions.conjugate(self.quat))

    @api_boundary
    def magnitude(self) -> Array:
        """The angles, from 0 to pi; shape () or (n,)."""
        return quaternions.magnitude(self.quat)

    @api_boundary
    def mean(self, weights: Any = None) -> Rotation:
        """The rotation nearest to all of them (F. L. Markley and others, Averaging quaternions,
        2007); weights: (n,), non-negative."""
        q = jnp.atleast_2d(self.quat)
        if weights is None:
            moment = jnp.matmul(q.T, q, precision="highest")
        else:
            w = jnp.asarray(_vectors("weights", weights, type_of(q).shape[0]))
            moment = jnp.matmul(q.T * w, q, precision="highest")
        return Rotation(eigh(moment).eigenvectors[:, -1])

    @property
    def single(self) -> bool:
        """Whether this is one rotation, not a row of them."""
        return type_of(self.quat).ndim == 1

    @api_boundary
    def __getitem__(self, indexer: Any) -> Rotation:
        """Selects some of the rotations."""
        _check_row(self, "elements")
        return Rotation(self.quat[indexer])

    @api_boundary
    def __len__(self) -> int:
        _check_row(self, "length")
        return int(type_of(self.quat).shape[0])

    @api_boundary
    def __mul__(self, other: Any) -> Rotation:
        check_rotation(other)
        p, q = promote_values("Rotation.__mul__", self.quat, other.quat)
        broadcast_shape(type_of(p).shape[:-1], type_of(q).shape[:-1])
        return Rotation(quaternions.compose(p, q))


def _check_row(rotation: Rotation, what: str) -> None:
    """Raises WeftTypeError for a single rotation, which has no elements."""
    if rotation.single:
        message = f"a Rotation that is one rotation has no {what}"
        got = f"quat: {type_of(rotation.quat)}"
        fix = Fix("single", "use r, or a row of it: Rotation.from_quat(r.as_quat()[None])")
        raise WeftTypeError(message, got=got, wanted="a row of rotations", fix=fix)


def check_rotation(value: Any) -> None:
    """Raises WeftTypeError unless a value is a `Rotation`."""
    if not isinstance(value, Rotation):
        got = f"{value!r:.60} of class {type(value).__name__}"
        fix = Fix("apply", "r.apply(x) rotates vectors; Rotation.from_quat(x) makes rotations")
        raise WeftTypeError("takes rotations", got=got, wanted="a Rotation", fix=fix)


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
        check_rotation(rotations)
        times = _times(times)
        check_dimensions("times", times, 1, 1)
        of, q = type_of(times), type_of(rotations.quat)
        if q.ndim != 2 or of.shape[0] != q.shape[0] or q.shape[0] < 2:
            got = f"times: {of}, quat: {q}"
            raise wrong_shape(got, "a time for each of two rotations or more")
        before, after = Rotation(rotations.quat[:-1]), Rotation(rotations.quat[1:])
        return cls(times, jnp.diff(times), before, (before.inv() * after).as_rotvec())

    @api_boundary
    def __call__(self, times: Any) -> Rotation:
        """The rotations at some times, () or (n,)."""
        times = _times(times)
        check_dimensions("times", times, 0, 1)
        index = jnp.searchsorted(self.times, times, side="right") - 1
        index = jnp.clip(index, 0, type_of(self.timedelta).shape[0] - 1)
        part = (times - self.times[index]) / self.timedelta[index]
        turn = Rotation.from_rotvec(self.rotvecs[index] * part[..., None])
        return Rotation(self.rotations.quat[index]) * turn


def _times(times: Any) -> Any:
    value = jnp.asarray(times) if isinstance(times, (list, tuple)) else times
    check_numbers("times", value, dtypes.REAL)
    value = jnp.asarray(value)
    return convert(value, inexact(type_of(value).dtype))
