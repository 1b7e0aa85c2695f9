"""The rates at which hares are born and lynxes eat them, from the pelts of twenty-one years.

    python examples/recipes/ode_fit.py
    python examples/recipes/ode_fit.py --picture pelts.svg

The model is that of Lotka (1925) and Volterra (1926): two ordinary differential equations. `odeint`
solves them with steps that adapt to the error, and its gradient is the adjoint equation, solved
backward in time. So a fit is what it is for any other function: a loss, and BFGS on its gradient.
The data is the pelts, in thousands, that the Hudson's Bay Company bought from 1900 to 1920.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import matplotlib.style
import numpy as np
from matplotlib.figure import Figure

import weft
import weft.numpy as jnp
from weft import Array
from weft.experimental.ode import odeint
from weft.scipy.optimize import OptimizeResults, minimize

STYLE = Path(__file__).with_name("recipes.mplstyle")
YEARS = np.arange(1900, 1921)
HARES = [30, 47.2, 70.2, 77.4, 36.3, 20.6, 18.1, 21.4, 22, 25.4, 27.1]
HARES += [40.3, 57, 76.6, 52.3, 19.5, 11.2, 7.6, 14.6, 16.2, 24.7]
LYNXES = [4, 6.1, 9.8, 35.2, 59.4, 41.7, 19, 13, 8.3, 9.1, 7.4]
LYNXES += [8, 12.3, 19.5, 45.7, 51.1, 29.7, 15.8, 9.7, 10.1, 8.6]
PELTS = np.array([HARES, LYNXES]).T
NAMES = ("hares born", "hares eaten", "lynxes born", "lynxes dying", "hares 1900", "lynxes 1900")


def rates(animals: Array, time: Array, params: Array) -> Array:
    """How fast the numbers of hares and lynxes change."""
    hares, lynxes = animals
    born, eaten, growth, dying = params[:4]
    of_hares = born * hares - eaten * hares * lynxes
    return jnp.stack([of_hares, growth * hares * lynxes - dying * lynxes])


def solve(log_params: Array, times: Array) -> Array:
    """Hares and lynxes at some times, in years after 1900. All parameters are positive."""
    params = jnp.exp(log_params)
    return odeint(rates, params[4:], times, params, rtol=1e-8, atol=1e-8)


def loss(log_params: Array, times: Array, pelts: Array) -> Array:
    """The mean squared error of the logarithms: an error counts by its share of the number."""
    return jnp.mean((jnp.log(solve(log_params, times)) - jnp.log(pelts)) ** 2)


@weft.jit
def fit(start: Array, times: Array, pelts: Array) -> OptimizeResults:
    """`x` of the result is the parameters with the smallest loss."""
    return minimize(lambda p: loss(p, times, pelts), start, method="BFGS")


def first_guess() -> np.ndarray:
    """Logarithms of rates with a period of ten years and the right means: near its equilibrium the
    model swings with the frequency sqrt(born · dying), around dying / growth and born / eaten."""
    speed = 2 * np.pi / 10
    hares, lynxes = PELTS.mean(axis=0)
    return np.log([speed, speed / lynxes, speed / hares, speed, *PELTS[0]])


def draw(path: Path, times: np.ndarray, curves: np.ndarray) -> None:
    """The pelts as points, the model as curves."""
    with matplotlib.style.context(STYLE):
        figure = Figure()
        axes = figure.subplots()
        for name, pelts, curve, colour in zip(
            ("hares", "lynxes"), PELTS.T, curves.T, ("C0", "C1"), strict=True
        ):
            axes.plot(YEARS, pelts, "o", color=colour, markersize=4)
            axes.plot(1900 + times, curve, color=colour, label=name)
        axes.set(xlabel="year", ylabel="thousands of pelts", xticks=YEARS[::4])
        axes.legend()
        figure.savefig(path, metadata={"Date": None})


def main(argv: list[str] | None = None) -> int:
    """Fits the six parameters, and prints them."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--picture", type=Path, help="where to draw pelts and model")
    options = parser.parse_args(argv)
    weft.config.update("enable_x64", True)  # float32 has no room for these tolerances
    start, times = first_guess(), YEARS - 1900.0
    found = fit(start, times, PELTS)
    print(f"loss {loss(start, times, PELTS):.4f}, after {found.nit} steps {found.fun:.4f}")
    for name, first, value in zip(NAMES, np.exp(start), np.exp(found.x), strict=True):
        print(f"{name:14s}{first:8.4f} -> {value:.4f}")
    error = np.exp(np.sqrt(found.fun)) - 1
    print(f"a count is off by {100 * error:.0f} %, typically")
    if options.picture:
        fine = np.linspace(0.0, 20.0, 201)
        draw(options.picture, fine, np.asarray(solve(found.x, fine)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
