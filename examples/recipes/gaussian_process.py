"""The height of a mountain ridge between measured points, with how uncertain it is.

    python examples/recipes/gaussian_process.py
    python examples/recipes/gaussian_process.py --picture ridge.svg

Exact Gaussian-process regression (Rasmussen and Williams, "Gaussian Processes for Machine
Learning", 2006, algorithm 2.1). The three hyperparameters maximize the marginal likelihood: BFGS
follows the gradient that weft takes through the Cholesky factorization. The data is a line through
the elevation model of the Jacksboro fault that matplotlib ships with.
"""

from __future__ import annotations

import argparse
import math
import sys
from pathlib import Path

import matplotlib.style
import numpy as np
from matplotlib.cbook import get_sample_data
from matplotlib.figure import Figure

import weft
import weft.numpy as jnp
from weft import Array
from weft.scipy.linalg import solve_triangular
from weft.scipy.optimize import OptimizeResults, minimize

STYLE = Path(__file__).with_name("recipes.mplstyle")
START = np.log([1.0, 100.0, 10.0])  # a length of 1 km, heights that vary by 100 m, noise of 10 m


def transect() -> tuple[np.ndarray, np.ndarray]:
    """Kilometres from west to east, and the height there in metres."""
    height = get_sample_data("jacksboro_fault_dem.npz")["elevation"][300]
    return 0.0745 * np.arange(len(height)), height.astype(np.float64)


def kernel(x: Array, y: Array, log_params: Array) -> Array:
    """Matérn covariance of order 3/2: its functions have slopes, and may have kinks."""
    length, amplitude, _ = jnp.exp(log_params)
    distance = math.sqrt(3) * jnp.abs(x[:, None] - y[None, :]) / length
    return amplitude**2 * (1 + distance) * jnp.exp(-distance)


def factor(x: Array, log_params: Array) -> Array:
    """The Cholesky factor of the covariance of noisy measurements at x."""
    noise = jnp.exp(log_params[2])
    return jnp.linalg.cholesky(kernel(x, x, log_params) + noise**2 * jnp.eye(len(x)))


def log_likelihood(log_params: Array, x: Array, y: Array) -> Array:
    """The logarithm of the density of the measurements y at x."""
    lower = factor(x, log_params)
    white = solve_triangular(lower, y, lower=True)
    log_det = 2 * jnp.sum(jnp.log(jnp.diagonal(lower)))
    return -0.5 * (white @ white + log_det + len(x) * math.log(2 * math.pi))


@weft.jit
def fit(x: Array, y: Array) -> OptimizeResults:
    """`x` of the result is the most likely logarithm of length, amplitude and noise."""
    return minimize(lambda p: -log_likelihood(p, x, y), jnp.asarray(START), method="BFGS")


@weft.jit
def predict(log_params: Array, x: Array, y: Array, new: Array) -> tuple[Array, Array]:
    """Mean and standard deviation of a measurement at new points, given those at x."""
    lower = factor(x, log_params)
    cross = solve_triangular(lower, kernel(x, new, log_params), lower=True)
    mean = cross.T @ solve_triangular(lower, y, lower=True)
    _, amplitude, noise = jnp.exp(log_params)
    return mean, jnp.sqrt(amplitude**2 + noise**2 - jnp.sum(cross**2, axis=0))


def draw(path: Path, *curves: Array) -> None:
    """The first 15 km: the ridge, what was measured of it, and the prediction within a band."""
    x, height, measured, mean, band = (np.asarray(curve)[:200] for curve in curves)
    with matplotlib.style.context(STYLE):
        axes = (figure := Figure()).subplots(subplot_kw={"xlabel": "km", "ylabel": "metres"})
        axes.fill_between(x, mean - band, mean + band, alpha=0.25, linewidth=0)
        axes.plot(x, mean, label="prediction")
        axes.plot(x, height, linewidth=0.8, label="true height")
        axes.plot(x[measured], height[measured], "o", markersize=3, label="measured")
        axes.legend(ncols=3, loc="upper left")
        figure.savefig(path, metadata={"Date": None})


def main(argv: list[str] | None = None) -> int:
    """Fits the process to every fifth height, and measures it at the others."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--picture", type=Path, help="where to draw the prediction")
    options = parser.parse_args(argv)
    weft.config.update("enable_x64", True)  # near points make a matrix that float32 cannot factor
    x, height = transect()
    measured = np.arange(len(x)) % 5 == 0
    level = height[measured].mean()
    found = fit(x[measured], height[measured] - level)
    mean, deviation = predict(found.x, x[measured], height[measured] - level, x)
    length, amplitude, noise = np.exp(found.x)
    print(f"length {length:.2f} km, amplitude {amplitude:.0f} m, noise {noise:.1f} m")
    print(f"log likelihood {-found.fun:.2f} after {found.nit} steps of BFGS")
    off = np.asarray(mean + level - height)[~measured]
    lines = (np.interp(x, x[measured], height[measured]) - height)[~measured]
    print(f"root mean square error at {len(off)} other points: {np.sqrt(np.mean(off**2)):.1f} m")
    print(f"of straight lines between the measured ones: {np.sqrt(np.mean(lines**2)):.1f} m")
    inside = np.mean(np.abs(off) < 2 * deviation[~measured])
    print(f"{100 * inside:.0f} % of those heights lie within two standard deviations")
    if options.picture:
        draw(options.picture, x, height, measured, mean + level, 2 * deviation)
    return 0


if __name__ == "__main__":
    sys.exit(main())
