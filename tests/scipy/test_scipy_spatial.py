"""Rotations: held to SciPy in every form, with derivatives at an angle of 0."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import scipy.spatial.transform as reference

import weft
import weft.numpy as jnp
from closeness import close_doubles
from weft.scipy.spatial.transform import Rotation, Slerp
from weft.testing import check_grads

pytestmark = pytest.mark.fast

RANDOM = np.random.default_rng(3)
QUATERNIONS = np.concatenate(
    [RANDOM.normal(size=(6, 4)), [[0, 0, 0, 1], [0, 0, 0, -1], [1, 0, 0, 0], [1e-9, 0, 0, 1]]]
)
V = RANDOM.normal(size=(10, 3))
AXES = [
    "".join(a)
    for letters in ("xyz", "XYZ")
    for a in itertools.product(letters, repeat=3)
    if a[0] != a[1] != a[2]
]


@pytest.fixture(autouse=True)
def wide():
    with weft.enable_x64():
        yield


def both(quaternions=QUATERNIONS):
    return Rotation.from_quat(quaternions), reference.Rotation.from_quat(quaternions)


def test_other_forms():
    r, s = both()
    close_doubles(r.as_quat(), s.as_quat())
    close_doubles(
        r.as_quat(canonical=True, scalar_first=True), s.as_quat(canonical=True, scalar_first=True)
    )
    close_doubles(r.as_matrix(), s.as_matrix())
    # Half a turn has two axes.
    close_doubles(abs(np.asarray(r.as_rotvec())), abs(s.as_rotvec()))
    close_doubles(r[:6].as_rotvec(degrees=True), s[:6].as_rotvec(degrees=True))
    close_doubles(r[:6].as_mrp(), s[:6].as_mrp())
    close_doubles(r.magnitude(), s.magnitude())
    assert len(r) == 10
    assert r[0].single
    assert not r.single


def test_made_from_other_forms():
    _, s = both()
    same = s.as_matrix()
    close_doubles(Rotation.from_matrix(same).as_matrix(), same)
    close_doubles(Rotation.from_rotvec(s.as_rotvec()).as_matrix(), same)
    close_doubles(Rotation.from_rotvec(s.as_rotvec(degrees=True), degrees=True).as_matrix(), same)
    close_doubles(Rotation.from_mrp(s.as_mrp()).as_matrix(), same)
    for axis in np.eye(3):
        half_turn = reference.Rotation.from_rotvec(np.pi * axis).as_matrix()
        close_doubles(Rotation.from_matrix(half_turn).as_matrix(), half_turn)
    close_doubles(Rotation.identity().as_quat(), [0, 0, 0, 1])
    close_doubles(Rotation.identity(2).as_matrix(), np.stack([np.eye(3)] * 2))


@pytest.mark.parametrize("axes", AXES)
def test_angles(axes):
    angles = RANDOM.uniform(-1.5, 1.5, size=(4, 3))
    if axes[0] == axes[2]:
        angles[:, 1] = abs(angles[:, 1])
    r = Rotation.from_euler(axes, angles)
    s = reference.Rotation.from_euler(axes, angles)
    close_doubles(r.as_matrix(), s.as_matrix())
    close_doubles(r.as_euler(axes), angles)
    close_doubles(r.as_euler(axes, degrees=True), s.as_euler(axes, degrees=True), 1e-10)
    # Where two angles cannot be told apart, the rotation is the same.
    middle = 0.0 if axes[0] == axes[2] else np.pi / 2
    for locked in ([0.4, middle, 0.9], [0.4, np.pi - middle, 0.9], [-2.0, -middle, 3.0]):
        r = Rotation.from_euler(axes, np.array(locked))
        found = r.as_euler(axes)
        close_doubles(Rotation.from_euler(axes, found).as_matrix(), r.as_matrix(), 1e-7)
        assert found[2] == 0


@pytest.mark.parametrize("axes", AXES)
def test_small_angles_and_half_turns(axes):
    """An angle keeps its digits however small it is, and lies between half a turn and another."""
    middle = 1.5 if axes[0] == axes[2] else 0.0
    angles = np.array([1e-12, middle + 1e-11, -3e-12])
    found = Rotation.from_euler(axes, angles).as_euler(axes)
    if axes[0] != axes[2]:
        np.testing.assert_allclose(found, angles, rtol=1e-6)
    for half in ([np.pi, middle, 0.0], [-np.pi, middle, 0.3], [0.3, np.pi - middle, 0.0]):
        r, s = (cls.from_euler(axes, np.array(half)) for cls in (Rotation, reference.Rotation))
        found = np.asarray(r.as_euler(axes))
        assert (abs(found) <= np.pi).all()
        close_doubles(Rotation.from_euler(axes, found).as_matrix(), s.as_matrix(), 1e-7)
    if axes[0] == axes[2]:
        r = Rotation.from_euler(axes, np.array([0.3, np.pi, 0.0]))
        close_doubles(r.as_euler(axes)[1], np.pi, 1e-7)


def test_numbers_of_numpy():
    with weft.enable_x64(False):
        assert Rotation.from_euler("x", np.float64(0.3)).quat.dtype == np.float32
        slerp = Slerp.init(np.arange(2.0), Rotation.identity(2))
        assert slerp(np.float64(0.3)).quat.dtype == np.float32


def test_fewer_angles():
    for axes, angles in (("x", np.array(0.3)), ("Z", V[:, 0]), ("y", V[:, :1]), ("xz", V[:, :2])):
        row = angles[:, None] if angles.ndim == 1 else angles
        want = reference.Rotation.from_euler(axes, np.rad2deg(row), degrees=True)
        got = Rotation.from_euler(axes, np.rad2deg(angles), degrees=True)
        close_doubles(got.as_matrix(), want.as_matrix())


def test_applied_and_composed():
    (r, s), (p, q) = both(), both(RANDOM.normal(size=4))
    close_doubles(r.apply(V), s.apply(V))
    close_doubles(r.apply(V[0], inverse=True), s.apply(V[0], inverse=True))
    close_doubles(p.apply(V), q.apply(V))
    close_doubles((r * p).as_matrix(), (s * q).as_matrix())
    close_doubles((p * r * r).as_matrix(), (q * s * s).as_matrix())
    close_doubles(r.inv().as_matrix(), s.inv().as_matrix())
    close_doubles(Rotation.concatenate([p, r]).as_matrix()[1:], s.as_matrix())
    for weights in (None, np.arange(1.0, 7.0)):
        want = s[:6].mean(weights).as_matrix()
        close_doubles(r[:6].mean(weights).as_matrix(), want)


def test_random():
    r = Rotation.random(weft.random.key(0), 4000)
    assert r.quat.shape == (4000, 4)
    close_doubles(np.linalg.norm(np.asarray(r.quat), axis=-1), np.ones(4000))
    # A uniform rotation moves a vector to anywhere alike: means are 0, mean squares 1/3.
    moved = np.asarray(r.apply(np.array([1.0, 0.0, 0.0])))
    close_doubles(moved.mean(0), np.zeros(3), 0.05)
    close_doubles((moved**2).mean(0), np.full(3, 1 / 3), 0.05)
    assert Rotation.random(weft.random.key(1)).single


def test_between_rotations():
    times, asked = np.array([0.0, 1.0, 3.0, 4.0, 6.0, 7.0]), np.array([0, 0.3, 2.5, 6.5, 7, 1])
    r, s = both(QUATERNIONS[:6])
    want = reference.Slerp(times, s)(asked)
    close_doubles(Slerp.init(times, r)(asked).as_matrix(), want.as_matrix())
    close_doubles(weft.jit(Slerp.init(times, r).__call__)(0.3).as_matrix(), want.as_matrix()[1])


def test_derivatives():
    q = QUATERNIONS[:3]
    for f in (
        lambda x: Rotation.from_quat(x).as_matrix(),
        lambda x: Rotation.from_quat(x).as_euler("xyz"),
        lambda x: Rotation.from_quat(x).as_mrp(),
        lambda x: Rotation.from_quat(x).apply(V[0]),
        lambda x: Rotation.from_quat(x).as_rotvec(),
    ):
        check_grads(f, (q,), order=2)
    for v in (np.zeros(3), np.full(3, 1e-4), np.array([0.3, -0.2, 0.5])):
        check_grads(lambda v: Rotation.from_rotvec(v).as_quat(), (v,), order=2)
        check_grads(lambda v: Rotation.from_rotvec(v).as_rotvec(), (v,), order=1)


def test_transformations():
    mapped = weft.vmap(lambda q: Rotation.from_quat(q).apply(V[0]))(QUATERNIONS)
    close_doubles(mapped, reference.Rotation.from_quat(QUATERNIONS).apply(V[0]))
    # A rotation is a tree of one array.
    close_doubles(weft.jit(lambda r: r.inv())(both()[0]).as_matrix(), both()[1].inv().as_matrix())
    small = Rotation.from_rotvec(jnp.asarray(V, dtype="float32"))
    assert small.as_matrix().dtype == np.float32


def test_in_shard_map():
    q = RANDOM.normal(size=(8, 4))
    mesh = weft.make_mesh((8,), ("i",))
    f = weft.shard_map(
        lambda q: Rotation.from_quat(q).as_rotvec(),
        mesh=mesh,
        in_specs=weft.P("i"),
        out_specs=weft.P("i"),
    )
    close_doubles(f(q), reference.Rotation.from_quat(q).as_rotvec())
