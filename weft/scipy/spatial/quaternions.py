"""Rotations as unit quaternions (x, y, z, w), and their other forms, along the last dimension.

Formulas with an angle in a denominator are written so that values and derivatives are right for an
angle of 0 too: the quotient is a power series there, selected with operands that are finite in
both branches.
"""

from __future__ import annotations

from typing import Annotated, Any

import weft.numpy as jnp
from weft.kinds.arguments import Operand
from weft.kinds.array_function import array_function
from weft.kinds.kind import Kind

# `Rotation` has checked the arguments.
Letters = Annotated[str, Kind(lambda value, call: value, "the axes, letters among xyz or XYZ")]


def _parts(q: Any) -> tuple[Any, Any, Any, Any]:
    return q[..., 0], q[..., 1], q[..., 2], q[..., 3]


@array_function
def unit(q: Operand) -> Any:
    """Divides a quaternion by its norm."""
    return q / jnp.sqrt((q * q).sum(-1, keepdims=True))


@array_function
def canonical(q: Operand) -> Any:
    """Of q and -q, which rotate alike, the one whose w, or else x, y, z, is above 0."""
    x, y, z, w = _parts(q)
    first = jnp.where(w != 0, w, jnp.where(x != 0, x, jnp.where(y != 0, y, z)))
    return jnp.where((first < 0)[..., None], -q, q)


@array_function
def conjugate(q: Operand) -> Any:
    """The inverse rotation."""
    return jnp.concatenate([-q[..., :3], q[..., 3:]], axis=-1)


@array_function
def compose(p: Operand, q: Operand) -> Any:
    """The rotation by q and then by p."""
    p, q = jnp.broadcast_arrays(p, q)
    u, v = p[..., :3], q[..., :3]
    a, b = p[..., 3:], q[..., 3:]
    vector = a * v + b * u + jnp.cross(u, v)
    return jnp.concatenate([vector, a * b - (u * v).sum(-1, keepdims=True)], axis=-1)


@array_function
def rotate(q: Operand, vectors: Operand) -> Any:
    """Rotated vectors: v + 2 w (u x v) + 2 u x (u x v)."""
    u, w = q[..., :3], q[..., 3:]
    u, vectors = jnp.broadcast_arrays(u, vectors)
    turned = 2 * jnp.cross(u, vectors)
    return vectors + w * turned + jnp.cross(u, turned)


@array_function
def matrix(q: Operand) -> Any:
    """Rotation matrices, (..., 3, 3)."""
    x, y, z, w = _parts(q)
    rows = [
        [x * x - y * y - z * z + w * w, 2 * (x * y - z * w), 2 * (x * z + y * w)],
        [2 * (x * y + z * w), -x * x + y * y - z * z + w * w, 2 * (y * z - x * w)],
        [2 * (x * z - y * w), 2 * (y * z + x * w), -x * x - y * y + z * z + w * w],
    ]
    return jnp.stack([jnp.stack(row, axis=-1) for row in rows], axis=-2)


@array_function
def from_matrix(m: Operand) -> Any:
    """From rotation matrices, by the largest of the four components (S. W. Shepperd, 1978)."""
    trace = m[..., 0, 0] + m[..., 1, 1] + m[..., 2, 2]
    candidates = []
    for i in range(3):
        j, k = (i + 1) % 3, (i + 2) % 3
        q: list[Any] = [None] * 4
        q[i] = 1 - trace + 2 * m[..., i, i]
        q[j] = m[..., j, i] + m[..., i, j]
        q[k] = m[..., k, i] + m[..., i, k]
        q[3] = m[..., k, j] - m[..., j, k]
        candidates.append(jnp.stack(q, axis=-1))
    last = [
        m[..., 2, 1] - m[..., 1, 2],
        m[..., 0, 2] - m[..., 2, 0],
        m[..., 1, 0] - m[..., 0, 1],
        1 + trace,
    ]
    candidates.append(jnp.stack(last, axis=-1))
    sizes = jnp.stack([m[..., 0, 0], m[..., 1, 1], m[..., 2, 2], trace], axis=-1)
    chosen = sizes.argmax(-1)
    out = candidates[3]
    for i in range(3):
        out = jnp.where((chosen == i)[..., None], candidates[i], out)
    return unit(out)


@array_function
def from_rotvec(v: Operand) -> Any:
    """From vectors along the axis, of the length of the angle."""
    square = (v * v).sum(-1, keepdims=True)
    small = square < 1e-6
    safe = jnp.where(small, 1, square)
    angle = jnp.sqrt(safe)
    # sin(a / 2) / a, and its series.
    series = 0.5 - square / 48 + square * square / 3840
    scale = jnp.where(small, series, jnp.sin(angle / 2) / angle)
    w = jnp.where(small, 1 - square / 8 + square * square / 384, jnp.cos(angle / 2))
    return jnp.concatenate([scale * v, w], axis=-1)


@array_function
def rotvec(q: Operand) -> Any:
    """Vectors along the axis, of the length of the angle, which is at most pi."""
    q = canonical(q)
    u, w = q[..., :3], q[..., 3:]
    square = (u * u).sum(-1, keepdims=True)
    small = square < 1e-6
    length = jnp.sqrt(jnp.where(small, 1, square))
    # 2 asin(s) / s, and its series.
    series = 2 + square / 3 + 3 * square * square / 20
    return jnp.where(small, series, 2 * jnp.arctan2(length, w) / length) * u


@array_function
def magnitude(q: Operand) -> Any:
    """The angle, from 0 to pi."""
    square = (q[..., :3] * q[..., :3]).sum(-1)
    length = jnp.sqrt(jnp.where(square > 0, square, 1))
    return 2 * jnp.arctan2(jnp.where(square > 0, length, 0), abs(q[..., 3]))


@array_function
def mrp(q: Operand) -> Any:
    """Modified Rodrigues parameters: vectors along the axis of length tan(angle / 4)."""
    q = jnp.where(q[..., 3:] < 0, -q, q)
    return q[..., :3] / (1 + q[..., 3:])


@array_function
def from_mrp(p: Operand) -> Any:
    """From modified Rodrigues parameters."""
    square = (p * p).sum(-1, keepdims=True)
    return jnp.concatenate([2 * p, 1 - square], axis=-1) / (1 + square)


@array_function
def euler_quaternion(angles: Operand, *, axes: Letters = "xyz") -> Any:
    """Rotations about one axis after the other: body axes (capital letters) or fixed ones."""
    out = None
    for i, letter in enumerate(axes):
        half = angles[..., i] / 2
        zero = jnp.zeros_like(half)
        parts = [zero, zero, zero, jnp.cos(half)]
        parts["xyz".index(letter.lower())] = jnp.sin(half)
        one = jnp.stack(parts, axis=-1)
        if out is None:
            out = one
        else:
            out = compose(out, one) if letter.isupper() else compose(one, out)
    return out


@array_function
def euler(q: Operand, *, axes: Letters = "xyz") -> Any:
    """Three angles about axes (E. Bernardes and S. Viollet, Quaternion to Euler angles conversion,
    2022); where only the sum or difference of two is known, the third is 0."""
    intrinsic = axes.isupper()
    i, j, k = ("xyz".index(a) for a in (axes.lower()[::-1] if intrinsic else axes.lower()))
    symmetric = i == k
    k = 3 - i - j if symmetric else k
    sign = (i - j) * (j - k) * (k - i) // 2
    if symmetric:
        a, b, c, d = q[..., 3], q[..., i], q[..., j], q[..., k] * sign
    else:
        a, b = q[..., 3] - q[..., j], q[..., i] + q[..., k] * sign
        c, d = q[..., j] + q[..., 3], q[..., k] * sign - q[..., i]
    middle = 2 * jnp.arctan2(jnp.hypot(c, d), jnp.hypot(a, b))
    eps = 1e-7 if q.dtype.itemsize >= 8 else 1e-5
    low, high = abs(middle) <= eps, abs(middle - jnp.pi) <= eps
    half_sum, half_difference = jnp.arctan2(b, a), jnp.arctan2(d, c)
    degenerate = jnp.where(low, 2 * half_sum, 2 * half_difference * (1 if intrinsic else -1))
    first = half_sum - half_difference
    third = half_sum + half_difference
    locked = low | high
    if intrinsic:
        # The angles were found from the last axis to the first.
        first, third = jnp.where(locked, 0, first), jnp.where(locked, degenerate, third)
    else:
        first, third = jnp.where(locked, degenerate, first), jnp.where(locked, 0, third)
    if not symmetric:
        third = third * sign
        middle = middle - jnp.pi / 2
    angles = [third, middle, first] if intrinsic else [first, middle, third]
    out = jnp.stack(angles, axis=-1)
    # By adding a turn where needed: a remainder would round small angles away.
    out = jnp.where(out < -jnp.pi, out + 2 * jnp.pi, out)
    return jnp.where(out > jnp.pi, out - 2 * jnp.pi, out)
