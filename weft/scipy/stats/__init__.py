"""`weft.scipy.stats`: distributions, a module each, and statistics of samples, as in SciPy."""

from typing import TYPE_CHECKING

from weft.base.facades import handed_on, load_on_first_use

if TYPE_CHECKING:
    from weft.scipy.stats import bernoulli as bernoulli
    from weft.scipy.stats import beta as beta
    from weft.scipy.stats import betabinom as betabinom
    from weft.scipy.stats import binom as binom
    from weft.scipy.stats import cauchy as cauchy
    from weft.scipy.stats import chi2 as chi2
    from weft.scipy.stats import dirichlet as dirichlet
    from weft.scipy.stats import expon as expon
    from weft.scipy.stats import gamma as gamma
    from weft.scipy.stats import gennorm as gennorm
    from weft.scipy.stats import geom as geom
    from weft.scipy.stats import gumbel_l as gumbel_l
    from weft.scipy.stats import gumbel_r as gumbel_r
    from weft.scipy.stats import laplace as laplace
    from weft.scipy.stats import logistic as logistic
    from weft.scipy.stats import multinomial as multinomial
    from weft.scipy.stats import multivariate_normal as multivariate_normal
    from weft.scipy.stats import nbinom as nbinom
    from weft.scipy.stats import norm as norm
    from weft.scipy.stats import pareto as pareto
    from weft.scipy.stats import poisson as poisson
    from weft.scipy.stats import t as t
    from weft.scipy.stats import truncnorm as truncnorm
    from weft.scipy.stats import uniform as uniform
    from weft.scipy.stats import vonmises as vonmises
    from weft.scipy.stats import wrapcauchy as wrapcauchy
    from weft.scipy.stats.kde import *
    from weft.scipy.stats.summaries import *

# Imported on first use, so that users of one distribution do not pay for the others.
_LAZY_MODULES = (
    "weft.scipy.stats.bernoulli",
    "weft.scipy.stats.beta",
    "weft.scipy.stats.betabinom",
    "weft.scipy.stats.binom",
    "weft.scipy.stats.cauchy",
    "weft.scipy.stats.chi2",
    "weft.scipy.stats.dirichlet",
    "weft.scipy.stats.expon",
    "weft.scipy.stats.gamma",
    "weft.scipy.stats.gennorm",
    "weft.scipy.stats.geom",
    "weft.scipy.stats.gumbel_l",
    "weft.scipy.stats.gumbel_r",
    "weft.scipy.stats.laplace",
    "weft.scipy.stats.logistic",
    "weft.scipy.stats.multinomial",
    "weft.scipy.stats.multivariate_normal",
    "weft.scipy.stats.nbinom",
    "weft.scipy.stats.norm",
    "weft.scipy.stats.pareto",
    "weft.scipy.stats.poisson",
    "weft.scipy.stats.t",
    "weft.scipy.stats.truncnorm",
    "weft.scipy.stats.uniform",
    "weft.scipy.stats.vonmises",
    "weft.scipy.stats.wrapcauchy",
)
_LAZY_NAMES = {
    "weft.scipy.stats.kde": "gaussian_kde",
    "weft.scipy.stats.summaries": "mode rankdata sem",
}

# Type checkers see the imports above, and that there are no other names.
if not TYPE_CHECKING:
    __all__ = handed_on(globals(), _LAZY_MODULES, _LAZY_NAMES)
    __getattr__, __dir__ = load_on_first_use(__name__, globals(), _LAZY_MODULES, _LAZY_NAMES)
