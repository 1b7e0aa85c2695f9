"""Random numbers as functions of keys: `weft.random`.

A key is made from a seed and split into others; every function draws the same numbers from the same
key, on every device and under every transformation.

Functions take one key and return an array of the given `shape` and `dtype`; parameters of a
distribution broadcast to that shape, or determine it where it is None. All raise WeftTypeError for
an argument that is not a key, ShapeError for several keys, a negative length or parameters that do
not broadcast, and DTypeError for a dtype that cannot hold the result.

>>> import weft
>>> weft.random.normal(weft.random.key(0), (2,), "int32")
Traceback (most recent call last):
    ...
weft.errors.DTypeError: normal draws real or complex numbers, which i32 does not hold
  ...
"""

from typing import TYPE_CHECKING

from weft.base.facades import load_on_first_use
from weft.random.continuous import (
    cauchy,
    exponential,
    gumbel,
    laplace,
    logistic,
    pareto,
    rayleigh,
    triangular,
    weibull_min,
)
from weft.random.counts import *
from weft.random.discrete import categorical, geometric
from weft.random.gamma import beta, chisquare, dirichlet, f, gamma, loggamma, random_gamma_p, t
from weft.random.gaussian import (
    double_sided_maxwell,
    lognormal,
    maxwell,
    normal,
    truncated_normal,
    wald,
)
from weft.random.keys import *
from weft.random.permutations import choice, permutation
from weft.random.uniforms import bernoulli, bits, rademacher, randint, uniform
from weft.random.vectors import *

__all__ = [
    "PRNGKey", "ball", "bernoulli", "beta", "binomial", "bits", "categorical", "cauchy",
    "chisquare", "choice", "clone", "dirichlet", "double_sided_maxwell", "exponential", "f",
    "fold_in", "gamma", "generalized_normal", "geometric", "gumbel", "key", "key_data", "key_dtype",
    "key_impl", "laplace", "loggamma", "logistic", "lognormal", "maxwell", "multinomial",
    "multivariate_normal", "normal", "orthogonal", "pareto", "permutation", "poisson", "rademacher",
    "randint", "random_gamma_p", "rayleigh", "split", "t", "triangular", "truncated_normal",
    "uniform", "wald", "weibull_min", "wrap_key_data",
]  # fmt: skip

if not TYPE_CHECKING:
    __getattr__, __dir__ = load_on_first_use(__name__, globals())
