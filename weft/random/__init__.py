"""Random numbers as functions of keys: `weft.random`.

A key is made from a seed and split into others; every function draws the same numbers from the same
key, on every device and under every transformation.
"""

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
from weft.random.discrete import categorical, geometric
from weft.random.gaussian import (
    double_sided_maxwell,
    lognormal,
    maxwell,
    normal,
    truncated_normal,
    wald,
)
from weft.random.keys import (
    PRNGKey,
    clone,
    fold_in,
    key,
    key_data,
    key_dtype,
    key_impl,
    split,
    wrap_key_data,
)
from weft.random.permutations import choice, permutation
from weft.random.uniforms import bernoulli, bits, rademacher, randint, uniform

__all__ = [
    "PRNGKey",
    "bernoulli",
    "bits",
    "categorical",
    "cauchy",
    "choice",
    "clone",
    "double_sided_maxwell",
    "exponential",
    "fold_in",
    "geometric",
    "gumbel",
    "key",
    "key_data",
    "key_dtype",
    "key_impl",
    "laplace",
    "logistic",
    "lognormal",
    "maxwell",
    "normal",
    "pareto",
    "permutation",
    "rademacher",
    "randint",
    "rayleigh",
    "split",
    "triangular",
    "truncated_normal",
    "uniform",
    "wald",
    "weibull_min",
    "wrap_key_data",
]
