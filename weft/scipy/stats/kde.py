"""Estimates of a density by a sum of normal kernels around the points of a sample.

B. W. Silverman, "Density Estimation for Statistics and Data Analysis" (1986); D. W. Scott,
"Multivariate Density Estimation" (1992).
"""

from __future__ import annotations

import math
from typing import Any

import weft.numpy as jnp
from weft import tree
from weft.arrays.array import Array
from weft.core.types import type_of
from weft.errors import (
    Fix,
    ShapeError,
    WeftNotImplementedError,
    WeftTypeError,
    WeftValueError,
    api_boundary,
)
from weft.kinds.arguments import Operand
from weft.kinds.array_function import array_function
from weft.kinds.checks import broadcast_shape, check_ranks, computing_dtype
from weft.numpy.linalg import inv
from weft.ops.elementwise.convert import convert_element_type
from weft.ops.linalg.cholesky import cholesky
from weft.ops.linalg.triangular_solve import triangular_solve
from weft.random.draw_arguments import check_key, check_shape
from weft.random.gaussian import normal
from weft.random.keys import split
from weft.random.permutations import choice
from weft.scipy.real_functions import operand_type, real_operands
from weft.scipy.special.error_functions import ndtr_p

__all__ = ["gaussian_kde"]


@array_function
def _moments(dataset: Operand, weights: Operand) -> Any:
    """Normalized weights, the effective number of points, and the sample's covariance."""
    weights = weights / weights.sum()
    neff = 1.0 / (weights * weights).sum()
    away = dataset - (dataset * weights).sum(1, keepdims=True)
    spread = (away * weights) @ away.T
    return weights, neff, spread / (1.0 - (weights * weights).sum())


def _log_sum(exponent: Any, weights: Any) -> Any:
    """log(sum(weights * exp(exponent))) over the last dimension."""
    largest = exponent.max(-1, keepdims=True)
    total = (weights * jnp.exp(exponent - largest)).sum(-1)
    return jnp.log(total) + largest[..., 0]


@array_function
def _log_density(points: Operand, dataset: Operand, weights: Operand, covariance: Operand) -> Any:
    """The logarithm of the weighted sum of normal densities around the columns of dataset."""
    d = covariance.shape[0]
    factor = cholesky(covariance)
    centers = triangular_solve(factor, dataset, left_side=True, lower=True)
    white = triangular_solve(factor, points, left_side=True, lower=True)
    away = white[:, :, None] - centers[:, None, :]
    log_norm = 0.5 * d * math.log(2 * math.pi) + jnp.log(factor.diagonal()).sum()
    return _log_sum(-0.5 * (away * away).sum(0), weights) - log_norm


@array_function
def _probability_between(
    dataset: Operand, weights: Operand, covariance: Operand, low: Operand, high: Operand
) -> Any:
    """The weighted sum of the kernels' probabilities of an interval."""
    width = jnp.sqrt(covariance[0, 0])
    upper = (high[..., None] - dataset[0]) / width
    lower = (low[..., None] - dataset[0]) / width
    return (weights * (ndtr_p.bind(upper) - ndtr_p.bind(lower))).sum(-1)


@tree.register_class
class gaussian_kde:
    """The density of a sample, as a weighted sum of normal densities around its points.

    dataset: real numbers of shape (n,), or (d, n) with a point in each column. bw_method: the width
    of the kernels in units of the covariance of the sample: "scott" (the default,
    neff^(-1 / (d + 4))), "silverman", a number, or a function of the estimate. weights: of shape
    (n,). A pytree of arrays that may be differentiated and mapped.

    Raises ShapeError if dataset or weights have other shapes, WeftValueError for a dataset of
    one point and an unknown bw_method.

    >>> estimate = gaussian_kde(np.array([-1.0, 0.0, 1.0]))
    >>> estimate.pdf(0.0)
    Array([0.31815624], dtype=float32)
    """

    neff: Any
    dataset: Any
    weights: Any
    covariance: Any
    inv_cov: Any

    @api_boundary
    def __init__(self, dataset: Any, bw_method: Any = None, weights: Any = None) -> None:
        arguments = (dataset,) if weights is None else (dataset, weights)
        operands, dtype = real_operands(("dataset", "weights")[: len(arguments)], arguments)
        working = computing_dtype(dtype)
        points = jnp.atleast_2d(convert_element_type(operands[0], working))
        shape = type_of(points).shape
        if len(shape) != 2 or shape[1] < 2:
            fix = Fix("transpose", "pass dataset.T: its rows are the points")
            raise ShapeError(
                "takes a sample of two points or more",
                got=f"dataset of type {type_of(dataset)}",
                wanted="shape (n,) or (d, n) with n > 1",
                fix=fix if len(shape) == 2 and shape[0] > 1 else None,
            )
        if weights is None:
            weight = jnp.ones(shape[1], working)
        else:
            weight = convert_element_type(operands[1], working)
            if type_of(weight).shape != shape[1:]:
                got, wanted = f"weights of shape {type_of(weight).shape}", f"shape ({shape[1]},)"
                raise ShapeError("takes one weight for each point", got=got, wanted=wanted)
        self.dataset = points
        self.weights, self.neff, spread = _moments(points, weight)
        factor = self._factor(bw_method)
        self.covariance = spread * (factor * factor)
        self.inv_cov = inv(self.covariance)

    def _factor(self, method: Any) -> Any:
        """The width of the kernels."""
        method = "scott" if method is None else method
        if isinstance(method, str):
            if method not in ("scott", "silverman"):
                got = f"bw_method={method!r:.80}"
                wanted = "'scott', 'silverman', a number or a function"
                fix = Fix("bw_method", "pass bw_method='scott'", {"bw_method": "scott"})
                message = f"there is no bw_method {method!r}"
                raise WeftValueError(message, got=got, wanted=wanted, fix=fix)
            share = 1.0 if method == "scott" else (self.d + 2) / 4.0
            return (self.neff * share) ** (-1.0 / (self.d + 4))
        if callable(method):
            return method(self)
        if operand_type("bw_method", method).shape:
            got = f"bw_method of shape {type_of(method).shape}"
            raise ShapeError("takes one number as bw_method", got=got, wanted="a number")
        return method

    def tree_flatten(self) -> tuple[tuple[Any, ...], None]:
        """The arrays of the estimate, as leaves."""
        return (self.neff, self.dataset, self.weights, self.covariance, self.inv_cov), None

    @classmethod
    def tree_unflatten(cls, aux_data: None, children: Any) -> gaussian_kde:
        """The estimate with these arrays."""
        out = object.__new__(cls)
        out.neff, out.dataset, out.weights, out.covariance, out.inv_cov = children
        return out

    @property
    def d(self) -> int:
        """The number of dimensions."""
        return int(self.dataset.shape[0])

    @property
    def n(self) -> int:
        """The number of points."""
        return int(self.dataset.shape[1])

    def _points(self, points: Any) -> Any:
        """Converts points to columns in the dtype of the estimate."""
        ((x,), _) = real_operands(("points",), (points,))
        x = jnp.atleast_2d(convert_element_type(x, self.dataset.dtype))
        if x.ndim == 2 and x.shape[0] == 1 and x.shape[1] == self.d:
            x = x.T  # one point
        if x.ndim != 2 or x.shape[0] != self.d:
            fix = Fix("transpose", "pass points.T: its rows are the points")
            raise ShapeError(
                "takes points of the dimensions of the sample",
                got=f"points of type {type_of(points)}",
                wanted=f"shape ({self.d}, m), a point in each column",
                fix=fix if x.ndim == 2 and x.shape[1] == self.d else None,
            )
        return x

    @api_boundary
    def logpdf(self, x: Any) -> Array:
        """The logarithm of the density at points (d, m): shape (m,). Raises ShapeError."""
        x = self._points(x)
        return _log_density(x, self.dataset, self.weights, self.covariance)

    @api_boundary
    def evaluate(self, points: Any) -> Array:
        """The density at points (d, m): shape (m,). Raises ShapeError."""
        x = self._points(points)
        return jnp.exp(_log_density(x, self.dataset, self.weights, self.covariance))

    __call__ = evaluate

    @api_boundary
    def pdf(self, x: Any) -> Array:
        """The density at points (d, m): shape (m,). Raises ShapeError."""
        x = self._points(x)
        return jnp.exp(_log_density(x, self.dataset, self.weights, self.covariance))

    @api_boundary
    def integrate_gaussian(self, mean: Any, cov: Any) -> Array:
        """The integral of the density times a normal one with this mean (d,) and cov (d, d)."""
        (mean, cov), _ = real_operands(("mean", "cov"), (mean, cov))
        mean, cov = (convert_element_type(v, self.dataset.dtype) for v in (mean, cov))
        mean, cov = jnp.atleast_1d(mean), jnp.atleast_2d(cov)
        if mean.shape != (self.d,) or cov.shape != (self.d, self.d):
            message = "takes a normal distribution of the dimensions of the sample"
            got = f"mean of shape {mean.shape} and cov of shape {cov.shape}"
            wanted = f"mean of shape ({self.d},) and cov of shape ({self.d}, {self.d})"
            raise ShapeError(message, got=got, wanted=wanted)
        total = self.covariance + cov
        return jnp.exp(_log_density(mean[:, None], self.dataset, self.weights, total))[0]

    @api_boundary
    def integrate_box_1d(self, low: Any, high: Any) -> Array:
        """The probability of low … high, of a sample of one dimension. Raises ShapeError."""
        name = "gaussian_kde.integrate_box_1d"
        if self.d != 1:
            message = "takes a sample of one dimension"
            got = f"a dataset of {self.d} dimensions"
            raise ShapeError(message, got=got, wanted="one dimension")
        (low, high), _ = real_operands(("low", "high"), (low, high))
        shapes = type_of(low).shape, type_of(high).shape
        check_ranks(name, shapes)
        broadcast_shape(*shapes)
        low, high = (jnp.asarray(convert_element_type(v, self.dataset.dtype)) for v in (low, high))
        return _probability_between(self.dataset, self.weights, self.covariance, low, high)

    @api_boundary
    def integrate_kde(self, other: Any) -> Array:
        """The integral of the product of two estimated densities of the same dimensions."""
        if not isinstance(other, gaussian_kde):
            message = "takes another gaussian_kde"
            got = f"other of class {type(other).__name__}"
            raise WeftTypeError(message, got=got, wanted="a gaussian_kde")
        if other.d != self.d:
            message = "takes an estimate of as many dimensions"
            got = f"{self.d} and {other.d} dimensions"
            raise ShapeError(message, got=got, wanted="equal numbers")
        total = self.covariance + other.covariance
        log_density = _log_density(other.dataset, self.dataset, self.weights, total)
        return jnp.sum(other.weights * jnp.exp(log_density))

    @api_boundary
    def resample(self, key: Any, shape: Any = ()) -> Array:
        """Random points of the estimated distribution: shape (d, *shape)."""
        first, second = split(check_key(key))
        shape = check_shape(shape)
        index = choice(first, self.n, shape=shape, replace=True, p=self.weights)
        noise = normal(second, (self.d, *shape), self.dataset.dtype)
        spread = jnp.tensordot(cholesky(self.covariance), noise, 1)
        return jnp.take(self.dataset, index, axis=1) + spread

    @api_boundary
    def integrate_box(self, low_bounds: Any, high_bounds: Any, maxpts: Any = None) -> Any:
        """Raises NotImplementedError: the normal integral over a box has no closed form."""
        raise _unavailable(
            f"low_bounds={low_bounds!r:.40}, high_bounds={high_bounds!r:.40}",
            "bounds in one dimension",
            "in one dimension there is integrate_box_1d; in more, count the points of resample()",
        )

    @api_boundary
    def set_bandwidth(self, bw_method: Any = None) -> None:
        """Raises NotImplementedError: an estimate does not change."""
        raise _unavailable(
            f"bw_method={bw_method!r:.40}",
            "the bandwidth when the estimate is made",
            "make another estimate: gaussian_kde(dataset, bw_method=...)",
        )


def _unavailable(got: str, wanted: str, instead: str) -> WeftNotImplementedError:
    """The error for a method of SciPy's that another one replaces."""
    fix = Fix("instead", instead)
    return WeftNotImplementedError("is not there", got=got, wanted=wanted, fix=fix)
