"""`weft.scipy.special`: special functions with the names and arguments of SciPy.

They are elementwise: arguments are promoted to one dtype, integers to real numbers, and broadcast
to one shape, which the result has; float16 and bfloat16 are computed in float32. They raise
WeftTypeError for what is no array or number, DTypeError for complex numbers unless they take them,
and ShapeError for shapes that do not broadcast.

>>> from weft.scipy import special
>>> special.gammaln(1j)
Traceback (most recent call last):
    ...
weft.errors.DTypeError: gammaln takes real numbers as x
  ...
"""

from weft.scipy.special.bessel import *
from weft.scipy.special.entropies import *
from weft.scipy.special.error_functions import *
from weft.scipy.special.gammas import *
from weft.scipy.special.hypergeometric import hyp1f1, hyp2f1
from weft.scipy.special.integrals import *

__all__ = [
    "bernoulli", "bessel_jn", "beta", "betainc", "betaln", "boxcox", "boxcox1p", "comb", "dawsn",
    "digamma", "entr", "erf", "erfc", "erfcx", "erfinv", "exp1", "expi", "expit", "expn",
    "factorial", "fresnel", "gamma", "gammainc", "gammaincc", "gammaln", "gammasgn", "hyp1f1",
    "hyp2f1", "i0", "i0e", "i1", "i1e", "kl_div", "log_ndtr", "log_softmax", "loggamma", "logit",
    "logsumexp", "multigammaln", "ndtr", "ndtri", "owens_t", "poch", "polygamma", "rel_entr",
    "sici", "softmax", "spence", "sph_harm_y", "wofz", "xlog1py", "xlogy", "zeta",
]  # fmt: skip
