"""The regularised incomplete gamma and beta functions, as operations.

Their values are computed in `incomplete`; their derivatives in x are the densities of the gamma and
of the beta distribution.
"""

from __future__ import annotations

from weft.arrays.array import Array
from weft.ops.elementwise import incomplete
from weft.ops.elementwise.arithmetic import mul, neg
from weft.ops.elementwise.densities import beta_density_p, gamma_density_jvp_a, gamma_density_p
from weft.ops.elementwise.families import apply
from weft.ops.elementwise.formulas import kernel
from weft.ops.elementwise.special import no_derivative
from weft.typing import ArrayLike

__all__ = ["betainc", "igamma", "igamma_grad_a", "igammac", "random_gamma_grad"]


# ---- the incomplete gamma functions ------------------------------------------------------------


def igamma(a: ArrayLike, x: ArrayLike) -> Array:
    """Elementwise regularised lower incomplete gamma function P(a, x).

    a: the parameter of the gamma distribution, above 0.

    >>> lax.igamma(np.array(1.0), np.array(2.0))
    Array(0.86466473, dtype=float32)
    """
    return apply(igamma_p, a, x)


igamma_p = kernel(
    "igamma",
    incomplete.gamma_lower,
    lambda t, ans, a, x: mul(t, igamma_grad_a(a, x)),
    lambda t, ans, a, x: mul(t, gamma_density_p.bind(a, x)),
)


def igammac(a: ArrayLike, x: ArrayLike) -> Array:
    """Elementwise regularised upper incomplete gamma function, 1 - P(a, x).

    a: the parameter of the gamma distribution, above 0.

    >>> lax.igammac(np.array(1.0), np.array(2.0))
    Array(0.13533528, dtype=float32)
    """
    return apply(igammac_p, a, x)


igammac_p = kernel(
    "igammac",
    incomplete.gamma_upper,
    lambda t, ans, a, x: neg(mul(t, igamma_grad_a(a, x))),
    lambda t, ans, a, x: neg(mul(t, gamma_density_p.bind(a, x))),
)


def igamma_grad_a(a: ArrayLike, x: ArrayLike) -> Array:
    """Elementwise derivative of `igamma` in a, of real numbers. Raises as `igamma` does.

    a: the parameter in which `igamma` is differentiated, above 0.

    >>> change = lax.igamma(1.001, 2.0) - lax.igamma(0.999, 2.0)
    >>> bool(abs(lax.igamma_grad_a(1.0, 2.0) - change / 0.002) < 1e-3)
    True
    """
    return apply(igamma_grad_a_p, a, x)


igamma_grad_a_p = kernel(
    "igamma_grad_a",
    incomplete.gamma_lower_in_a,
    no_derivative("igamma_grad_a", "a"),
    lambda t, ans, a, x: gamma_density_jvp_a(t, gamma_density_p.bind(a, x), a, x),
)


def random_gamma_grad(a: ArrayLike, x: ArrayLike) -> Array:
    """Elementwise derivative in a of a sample x of the gamma distribution with parameter a.

    It is dx/da at a fixed quantile, which makes gamma samples differentiable.

    a: the parameter of the gamma distribution, above 0.

    >>> chance = lax.igamma(2.0, 1.5)  # of a smaller sample, which stays as a and x move together
    >>> moved = lax.igamma(2.01, 1.5 + 0.01 * lax.random_gamma_grad(2.0, 1.5))
    >>> bool(abs(moved - chance) < 1e-4)
    True
    """
    return apply(random_gamma_grad_p, a, x)


random_gamma_grad_p = kernel(
    "random_gamma_grad",
    incomplete.gamma_sample_in_a,
    no_derivative("random_gamma_grad", "a"),
    no_derivative("random_gamma_grad", "x"),
)


# ---- the incomplete beta function --------------------------------------------------------------


def betainc(a: ArrayLike, b: ArrayLike, x: ArrayLike) -> Array:
    """Elementwise regularised incomplete beta function I_x(a, b), for x between 0 and 1.

    a, b: the parameters of the function, above 0.

    >>> lax.betainc(np.array(1.0), np.array(2.0), np.array(0.5))
    Array(0.75, dtype=float32)
    """
    return apply(betainc_p, a, b, x)


betainc_p = kernel(
    "regularized_incomplete_beta",
    incomplete.beta,
    no_derivative("betainc", "a"),
    no_derivative("betainc", "b"),
    lambda t, ans, a, b, x: mul(t, beta_density_p.bind(a, b, x)),
)
