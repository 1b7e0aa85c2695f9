"""`weft.scipy.stats`: distributions, a module each, and statistics of samples, as in SciPy."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from weft.scipy.stats import (
        bernoulli,
        beta,
        betabinom,
        binom,
        cauchy,
        chi2,
        dirichlet,
        expon,
        gamma,
        gennorm,
        geom,
        gumbel_l,
        gumbel_r,
        laplace,
        logistic,
        multinomial,
        multivariate_normal,
        nbinom,
        norm,
        pareto,
        poisson,
        t,
        truncnorm,
        uniform,
        vonmises,
        wrapcauchy,
    )
    from weft.scipy.stats.kde import gaussian_kde
    from weft.scipy.stats.summaries import mode, rankdata, sem

__all__ = [
    "bernoulli", "beta", "betabinom", "binom", "cauchy", "chi2", "dirichlet", "expon", "gamma",
    "gaussian_kde", "gennorm", "geom", "gumbel_l", "gumbel_r", "laplace", "logistic", "mode",
    "multinomial", "multivariate_normal", "nbinom", "norm", "pareto", "poisson", "rankdata", "sem",
    "t", "truncnorm", "uniform", "vonmises", "wrapcauchy",
]  # fmt: skip

# Imported on first use, as the modules of the distributions are.
_LAZY_NAMES = {
    "gaussian_kde": "weft.scipy.stats.kde",
    "mode": "weft.scipy.stats.summaries",
    "rankdata": "weft.scipy.stats.summaries",
    "sem": "weft.scipy.stats.summaries",
}


def __getattr__(name: str) -> Any:
    if name in _LAZY_NAMES:
        return getattr(importlib.import_module(_LAZY_NAMES[name]), name)
    if name in __all__:
        return importlib.import_module(f"weft.scipy.stats.{name}")
    raise AttributeError(f"module 'weft.scipy.stats' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
