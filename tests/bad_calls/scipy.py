"""Wrong calls of `weft.scipy`: iterative solvers, signals, sampled functions, minima, rotations."""

from __future__ import annotations

import numpy as np

import weft.numpy as jnp
from bad_calls import BadCall
from weft.errors import AxisError, DTypeError, ShapeError, TreeError, WeftTypeError, WeftValueError
from weft.scipy import integrate, ndimage, signal
from weft.scipy.cluster.vq import vq
from weft.scipy.interpolate import RegularGridInterpolator
from weft.scipy.optimize import minimize
from weft.scipy.sparse.linalg import bicgstab, cg, gmres
from weft.scipy.spatial.transform import Rotation, Slerp

V = np.arange(1.0, 5.0, dtype=np.float32)
M = np.eye(4, dtype=np.float32)
WIDE = np.ones((2, 4), np.float32)
Z = V + 1j
GRID = (np.arange(2.0), np.arange(4.0))
ONE = Rotation(np.array([0.0, 0, 0, 1], np.float32))
ROW = Rotation(np.ones((3, 4), np.float32) / 2)


def bfgs(fun=lambda x: jnp.sum(x * x), x0=V, **options):
    return lambda: minimize(fun, x0, **{"method": "BFGS", **options})


SPARSE = [
    BadCall("sparse.linalg.cg", lambda: cg(M, V[:3]), ShapeError, ("A: f32[4,4]", "square")),
    BadCall("sparse.linalg.cg", lambda: cg("A", V), WeftTypeError, ("str",)),
    BadCall("sparse.linalg.cg", lambda: cg(M, "b"), WeftTypeError, ("str",)),
    BadCall("sparse.linalg.cg", lambda: cg(M, ()), WeftTypeError, ("b has no arrays",)),
    BadCall("sparse.linalg.cg", lambda: cg(M, V, maxiter=2.5), WeftTypeError, ("maxiter=2.5",)),
    BadCall("sparse.linalg.bicgstab", lambda: bicgstab(M, V, (V,)), TreeError, ("x0", "structure")),
    BadCall("sparse.linalg.bicgstab", lambda: bicgstab(M, V, M=WIDE), ShapeError, ("M: f32[2,4]",)),
    BadCall("sparse.linalg.bicgstab", lambda: bicgstab(M, V, atol=V), WeftValueError, ("atol=",)),
    BadCall("sparse.linalg.gmres", lambda: gmres(M, V, restart=0), WeftValueError, ("restart=0",)),
    BadCall(
        "sparse.linalg.gmres", lambda: gmres(M, V, solve_method="x"), WeftValueError, ("'batched'",)
    ),
    BadCall("custom_linear_solve", lambda: gmres(lambda x: x[:2], V), WeftTypeError, ("b",)),
]

SIGNAL = [
    BadCall("signal.convolve", lambda: signal.convolve(V, V[:0]), ShapeError, ("elements",)),
    BadCall(
        "signal.convolve",
        lambda: signal.convolve(M[:2], M[:, :2], "valid"),
        ShapeError,
        ("holds the other",),
    ),
    BadCall(
        "signal.fftconvolve", lambda: signal.fftconvolve(M, M[:3], axes=1), ShapeError, ("(4,)",)
    ),
    BadCall(
        "signal.fftconvolve",
        lambda: signal.fftconvolve(M, M, axes=()),
        WeftValueError,
        ("one axis",),
    ),
    BadCall(
        "signal.stft",
        lambda: signal.stft(V, nperseg=4, noverlap=4),
        WeftValueError,
        ("noverlap=4",),
    ),
    BadCall("signal.stft", lambda: signal.stft(V, nperseg=4, nfft=3), WeftValueError, ("nfft=3",)),
    BadCall(
        "signal.stft",
        lambda: signal.stft(V, nperseg=None, window=np.ones(9)),
        ShapeError,
        ("9", "4"),
    ),
    BadCall("signal.csd", lambda: signal.csd(WIDE, np.ones((3, 4))), ShapeError, ("(2,)", "(3,)")),
    BadCall("signal.stft", lambda: signal.stft(V, fs=V), ShapeError, ("fs",)),
]


def grid(points=GRID, values=WIDE, **options):
    return lambda: RegularGridInterpolator(points, values, **options)


SAMPLED = [
    BadCall(
        "ndimage.map_coordinates",
        lambda: ndimage.map_coordinates(V[:0], [V], 1),
        WeftValueError,
        ("elements",),
    ),
    BadCall(
        "ndimage.map_coordinates",
        lambda: ndimage.map_coordinates(M, [V, V[:3]], 1),
        ShapeError,
        ("(3,)",),
    ),
    BadCall(
        "interpolate.RegularGridInterpolator", grid(method="cubic"), WeftValueError, ("'linear'",)
    ),
    BadCall(
        "interpolate.RegularGridInterpolator",
        lambda: grid()()(WIDE[:, :2], "x"),
        WeftValueError,
        ("'nearest'",),
    ),
    BadCall("trapezoid", lambda: integrate.trapezoid(V, axis=1), AxisError, ("1",)),
    BadCall("trapezoid", lambda: integrate.trapezoid(2.0), AxisError, ("-1",)),
    BadCall(
        "ndimage.map_coordinates",
        lambda: ndimage.map_coordinates(V, [Z], 1),
        DTypeError,
        ("coordinates[0]", "real"),
    ),
    BadCall("cluster.vq.vq", lambda: vq(Z, Z), DTypeError, ("real numbers",)),
]

MINIMA = [
    BadCall("optimize.minimize", bfgs(method="CG"), WeftValueError, ("'CG'", "'BFGS'")),
    BadCall("optimize.minimize", bfgs(x0=Z), DTypeError, ("real numbers",)),
    BadCall("optimize.minimize", bfgs(options={"norm": "l2"}), WeftValueError, ("norm='l2'",)),
    BadCall("optimize.minimize", bfgs(tol=V), ShapeError, ("tol",)),
]

ROTATIONS = [
    BadCall("Rotation.from_quat", lambda: Rotation.from_quat(V[:3]), ShapeError, ("(4,)",)),
    BadCall(
        "Rotation.from_quat", lambda: Rotation.from_quat([1, 0, 0, 0]), WeftTypeError, ("list",)
    ),
    BadCall("Rotation.from_quat", lambda: Rotation.from_quat(Z), DTypeError, ("real numbers",)),
    BadCall("Rotation.from_rotvec", lambda: Rotation.from_rotvec(V), ShapeError, ("(3,)",)),
    BadCall("Rotation.from_matrix", lambda: Rotation.from_matrix(M), ShapeError, ("(3, 3)",)),
    BadCall(
        "Rotation.from_euler",
        lambda: Rotation.from_euler("xxy", V[:3]),
        WeftValueError,
        ("differ",),
    ),
    BadCall("Rotation.as_euler", lambda: ONE.as_euler("xy"), WeftValueError, ("three letters",)),
    BadCall("Rotation.apply", lambda: ROW.apply(np.ones((2, 3))), ShapeError, ("(3,)", "(2,)")),
    BadCall("Rotation.mean", lambda: ROW.mean(V), ShapeError, ("(3,)",)),
    BadCall("Slerp.init", lambda: Slerp.init(V, ROW), ShapeError, ("times",)),
]

CALLS = [*SPARSE, *SIGNAL, *SAMPLED, *MINIMA, *ROTATIONS]
