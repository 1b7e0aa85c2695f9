"""Fixes of `weft.scipy`: matrices, solvers, signals, sampled functions, minima, rotations."""

from __future__ import annotations

import numpy as np
import scipy.fft
import scipy.linalg
import scipy.signal

import weft
import weft.numpy as jnp
from fixes import Fixed
from weft.errors import (
    DTypeError,
    ShapeError,
    TreeError,
    WeftNotImplementedError,
    WeftTypeError,
    WeftValueError,
)
from weft.scipy import fft, integrate, linalg, ndimage, signal
from weft.scipy.cluster.vq import vq
from weft.scipy.interpolate import RegularGridInterpolator
from weft.scipy.optimize import minimize
from weft.scipy.sparse.linalg import cg
from weft.scipy.spatial.transform import Rotation, Slerp

S = np.float32([[4, 1], [1, 3]])
V = np.float32([1, 2])
X = np.float32([0, 1, 4, 9, 16, 25])
WIDE = np.float32([[1, 2, 3], [4, 5, 7]])
GRID = (np.float32([0, 1]), np.float32([0, 2, 4]))
PLACE = np.float32([[0.5, 1]])
QUARTER = np.float32([0, 0, np.sqrt(0.5), np.sqrt(0.5)])
TURN = Rotation.from_quat(QUARTER)


def bowl(x, center=0.0):
    return jnp.sum((x - center) ** 2)


def lowest(fun=bowl, **options):
    return minimize(fun, V, **{"method": "BFGS", **options})


def near(value):
    """The place of a minimum is found to half of the digits."""
    return lambda found: np.allclose(found.x, value, atol=1e-3)


def interpolated(points=GRID, values=WIDE, place=PLACE, **options):
    return RegularGridInterpolator(points, values, **options)(place)


def eigenvalues(numbers):
    return linalg.eigh_tridiagonal(
        X[:3], X[1:3], eigvals_only=True, select="i", select_range=numbers
    )


def sorted_along(points, values, axis):
    order = weft.numpy.argsort(points[axis])
    points = tuple(row[order] if i == axis else row for i, row in enumerate(points))
    return points, weft.numpy.take(values, order, axis=axis)


MATRICES = [
    Fixed(
        "pass a func that gives a value for each eigenvalue",
        wrong=lambda: linalg.funm(S, jnp.sum),
        fixed=lambda fix: linalg.funm(S, jnp.square).real,
        value=S @ S,
        error=ShapeError,
    ),
    Fixed(
        "pass cho_factor(a)",
        wrong=lambda: linalg.cho_solve(S, V),
        fixed=lambda fix: linalg.cho_solve(linalg.cho_factor(S), V),
        value=np.linalg.solve(S, V),
        error=WeftTypeError,
    ),
    Fixed(
        "pass lu_factor(a)",
        wrong=lambda: linalg.lu_solve((S, V), V),
        fixed=lambda fix: linalg.lu_solve(linalg.lu_factor(S), V),
        value=np.linalg.solve(S, V),
        error=DTypeError,
    ),
    Fixed(
        "pass b of shape (2,) or (..., 2, k)",
        wrong=lambda: linalg.solve(S, V[None]),
        fixed=lambda fix: [linalg.solve(S, V), linalg.solve(S, V[:, None])],
        value=[np.linalg.solve(S, V), np.linalg.solve(S, V)[:, None]],
        error=ShapeError,
    ),
    Fixed(
        'at least as many rows as columns, or method="svd"',
        wrong=lambda: linalg.polar(WIDE),
        fixed=lambda fix: list(linalg.polar(WIDE, method="svd")),
        value=list(scipy.linalg.polar(WIDE)),
        error=ShapeError,
    ),
    Fixed(
        "pass a C of shape (2, 3)",
        wrong=lambda: linalg.solve_sylvester(S, np.eye(3, dtype=np.float32), WIDE.T),
        fixed=lambda fix: linalg.solve_sylvester(S, np.eye(3, dtype=np.float32), WIDE),
        value=np.linalg.solve(S + np.eye(2), WIDE),
        error=ShapeError,
    ),
    Fixed(
        "pass an s of 2 elements",
        wrong=lambda: linalg.leslie(X[:3], X[:3]),
        fixed=lambda fix: linalg.leslie(X[:3], X[:2]),
        value=scipy.linalg.leslie(X[:3], X[:2]),
        error=ShapeError,
    ),
    Fixed(
        "pass an n that is a power of two",
        wrong=lambda: linalg.hadamard(3),
        fixed=lambda fix: linalg.hadamard(4),
        value=scipy.linalg.hadamard(4),
        error=WeftValueError,
    ),
    Fixed(
        'with "i" numbers from 0 to 2, with "v" rising bounds',
        wrong=lambda: eigenvalues((0, 3)),
        fixed=lambda fix: [eigenvalues((0, 2)), eigenvalues((1, 1))],
        value=[
            np.linalg.eigvalsh([[0, 1, 0], [1, 1, 4], [0, 4, 4]]),
            np.linalg.eigvalsh([[0, 1, 0], [1, 1, 4], [0, 4, 4]])[1:2],
        ],
        error=WeftValueError,
    ),
]

SOLVERS = [
    Fixed(
        "weft.random.key_data(key)",
        wrong=lambda: cg(S, weft.random.split(weft.random.key(0))),
        fixed=lambda fix: cg(S, weft.random.key_data(weft.random.key(8)))[0],
        value=np.linalg.solve(S, [0, 8]),
        error=DTypeError,
    ),
    Fixed(
        "pass an x0 like b, or none",
        wrong=lambda: cg(S, V, (V,)),
        fixed=lambda fix: [cg(S, V, V)[0], cg(S, V)[0]],
        value=[np.linalg.solve(S, V)] * 2,
        error=TreeError,
    ),
    Fixed(
        "pass an x0 like b",
        wrong=lambda: cg(S, V, X),
        fixed=lambda fix: cg(S, V, 0 * V)[0],
        value=np.linalg.solve(S, V),
        error=ShapeError,
    ),
    Fixed(
        "a number that is not below 0",
        wrong=lambda: cg(S, V, tol=-1.0),
        fixed=lambda fix: cg(S, V, tol=0.0)[0],
        value=np.linalg.solve(S, V),
        error=WeftValueError,
    ),
    Fixed(
        "leave out 'disp'",
        wrong=lambda: lowest(options={"disp": True}),
        fixed=lambda fix: lowest(options={}),
        value=near(0),
        error=WeftValueError,
    ),
    Fixed(
        "write 'maxiter'",
        wrong=lambda: lowest(options={"max_iter": 9}),
        fixed=lambda fix: lowest(options={"maxiter": 9}),
        value=near(0),
        error=WeftValueError,
    ),
    Fixed(
        'pass options={"gtol": 1e-6}',
        wrong=lambda: lowest(options=1e-6),
        fixed=lambda fix: lowest(options={"gtol": 1e-6}),
        value=near(0),
        error=WeftTypeError,
    ),
    Fixed(
        "pass a function, such as lambda x: weft.numpy.sum(x * x)",
        wrong=lambda: lowest(bowl(V)),
        fixed=lambda fix: lowest(lambda x: weft.numpy.sum(x * x)),
        value=near(0),
        error=WeftTypeError,
    ),
    Fixed(
        "flatten it: x0.reshape(-1)",
        wrong=lambda: minimize(bowl, WIDE, method="BFGS"),
        fixed=lambda fix: minimize(bowl, WIDE.reshape(-1), method="BFGS"),
        value=near(0),
        error=ShapeError,
    ),
    Fixed(
        "pass args=(value,)",
        wrong=lambda: lowest(args=3.0),
        fixed=lambda fix: lowest(args=(3.0,)),
        value=near(3),
        error=WeftTypeError,
    ),
    Fixed(
        "pass a fun that gives a number",
        wrong=lambda: lowest(lambda x: x**2),
        fixed=lambda fix: lowest(lambda x: jnp.sum(x**2)),
        value=near(0),
        error=ShapeError,
    ),
]

SIGNALS = [
    Fixed(
        "pass type=2",
        wrong=lambda: fft.dct(V[:1], type=1),
        fixed=lambda fix: fft.dct(V[:1], type=2),
        value=scipy.fft.dct(V[:1], type=2),
        error=WeftValueError,
    ),
    Fixed(
        "pass arrays of as many dimensions",
        wrong=lambda: signal.convolve(WIDE, V),
        fixed=lambda fix: signal.convolve(WIDE, V[None]),
        value=scipy.signal.convolve(WIDE, V[None]),
        error=ShapeError,
    ),
    Fixed(
        "pass a noverlap from 0 to 3, below nperseg",
        wrong=lambda: signal.welch(X, nperseg=4, noverlap=4),
        fixed=lambda fix: signal.welch(X, nperseg=4, noverlap=3)[1],
        value=scipy.signal.welch(X, nperseg=4, noverlap=3)[1],
        error=WeftValueError,
    ),
    Fixed(
        "pass nfft=4 or 5",
        wrong=lambda: signal.istft(signal.stft(X, nperseg=4)[2], nperseg=4, nfft=8),
        fixed=lambda fix: signal.istft(signal.stft(X, nperseg=4)[2], nperseg=4, nfft=4)[1][:6],
        value=X,
        error=WeftValueError,
    ),
    Fixed(
        "pass two different axes",
        wrong=lambda: signal.istft(signal.stft(X, nperseg=4)[2].T, time_axis=0),
        fixed=lambda fix: signal.istft(signal.stft(X, nperseg=4)[2].T, time_axis=0, freq_axis=1)[1][
            :6
        ],
        value=X,
        error=WeftValueError,
    ),
    Fixed(
        "pass a bp from 0 to 6",
        wrong=lambda: signal.detrend(X, bp=9),
        fixed=lambda fix: signal.detrend(X, bp=3),
        value=scipy.signal.detrend(X.astype(float), bp=3),
        error=WeftValueError,
    ),
    Fixed(
        "pass an x of 6 elements",
        wrong=lambda: integrate.trapezoid(X, X[:5]),
        fixed=lambda fix: integrate.trapezoid(X, np.arange(6.0)),
        value=np.sum(X) - X[-1] / 2,
        error=ShapeError,
    ),
]

SAMPLED = [
    Fixed(
        "order = weft.numpy.argsort(points[1]), points[1][order], "
        "weft.numpy.take(values, order, axis=1)",
        wrong=lambda: interpolated((GRID[0], GRID[1][::-1]), WIDE[:, ::-1]),
        fixed=lambda fix: interpolated(*sorted_along((GRID[0], GRID[1][::-1]), WIDE[:, ::-1], 1)),
        value=np.array([3.0]),
        error=WeftValueError,
    ),
    Fixed(
        "leave out repeated numbers of points[0], and their values",
        wrong=lambda: interpolated((np.float32([0, 1, 1]), GRID[1]), WIDE[[0, 1, 1]]),
        fixed=lambda fix: interpolated((np.float32([0, 1]), GRID[1]), WIDE),
        value=np.array([3.0]),
        error=WeftValueError,
    ),
    Fixed(
        "pass values of shape (2, 3)",
        wrong=lambda: interpolated(values=WIDE.T),
        fixed=lambda fix: interpolated(values=WIDE),
        value=np.array([3.0]),
        error=ShapeError,
    ),
    Fixed(
        "leave it out",
        wrong=lambda: interpolated(place=PLACE + 9, bounds_error=True),
        fixed=lambda fix: interpolated(place=PLACE + 9, fill_value=-1.0),
        value=np.array([-1.0]),
        error=WeftNotImplementedError,
    ),
    Fixed(
        "pass a tuple of arrays as points",
        wrong=lambda: interpolated(GRID[1], WIDE[0], place=PLACE[:, 1:]),
        fixed=lambda fix: interpolated((GRID[1],), WIDE[0], place=PLACE[:, 1:]),
        value=np.array([1.5]),
        error=WeftValueError,
    ),
    Fixed(
        "pass an xi of shape (..., 2)",
        wrong=lambda: interpolated(place=PLACE[:, :1]),
        fixed=lambda fix: interpolated(place=PLACE),
        value=np.array([3.0]),
        error=ShapeError,
    ),
    Fixed(
        "pass 2 arrays of coordinates",
        wrong=lambda: ndimage.map_coordinates(WIDE, [V / 4], order=1),
        fixed=lambda fix: ndimage.map_coordinates(WIDE, [0 * V, V / 4], order=1),
        value=1 + V / 4,
        error=ShapeError,
    ),
    Fixed(
        "pass codes, of as many elements as observations have",
        wrong=lambda: vq(WIDE, S),
        fixed=lambda fix: list(vq(WIDE, WIDE[::-1])),
        value=[np.array([1, 0]), np.zeros(2)],
        error=ShapeError,
    ),
]

ROTATIONS = [
    Fixed(
        "pass dtype='float32', or leave it out",
        wrong=lambda: Rotation.identity(dtype="int32"),
        fixed=lambda fix: [Rotation.identity(dtype="float32").quat, Rotation.identity().quat],
        value=[np.array([0, 0, 0, 1])] * 2,
        error=DTypeError,
    ),
    Fixed(
        "use r, ",
        wrong=lambda: TURN[0].apply(WIDE),
        fixed=lambda fix: TURN.apply(WIDE),
        value=np.float32([[-2, 1, 3], [-5, 4, 7]]),
        error=WeftTypeError,
    ),
    Fixed(
        "Rotation.from_quat(r.as_quat()[None])",
        wrong=lambda: len(TURN),
        fixed=lambda fix: len(Rotation.from_quat(TURN.as_quat()[None])),
        value=1,
        error=WeftTypeError,
    ),
    Fixed(
        "r.apply(x) rotates vectors",
        wrong=lambda: TURN * WIDE,
        fixed=lambda fix: TURN.apply(WIDE),
        value=np.float32([[-2, 1, 3], [-5, 4, 7]]),
        error=WeftTypeError,
    ),
    Fixed(
        "Rotation.from_quat(x) makes rotations",
        wrong=lambda: Slerp.init(V, np.stack([QUARTER, QUARTER])),
        fixed=lambda fix: (
            Slerp.init(V, Rotation.from_quat(np.stack([QUARTER, QUARTER])))(np.float32(1.5)).quat
        ),
        value=QUARTER,
        error=WeftTypeError,
    ),
    Fixed(
        "pass 3 angles",
        wrong=lambda: Rotation.from_euler("xyz", V),
        fixed=lambda fix: Rotation.from_euler("xyz", np.float32([0, 0, np.pi / 2])).quat,
        value=QUARTER,
        error=ShapeError,
    ),
    Fixed(
        'one to three letters of "xyz", or of "XYZ", as seq',
        wrong=lambda: Rotation.from_euler("xyw", WIDE[0]),
        fixed=lambda fix: Rotation.from_euler("z", np.float32(np.pi / 2)).quat,
        value=QUARTER,
        error=WeftValueError,
    ),
]

FIXES = [*MATRICES, *SOLVERS, *SIGNALS, *SAMPLED, *ROTATIONS]
