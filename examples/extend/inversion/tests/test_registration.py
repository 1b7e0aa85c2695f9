"""An operation from outside with an inverse from outside: the logit, whose formula uses its operand
twice and so has no inverse by elimination."""

from __future__ import annotations

import numpy as np
import pytest
from inversion import NotInvertibleError, inverse, inverse_and_log_det, register_inverse

import weft
import weft.numpy as jnp
from weft.errors import WeftValueError
from weft.extend.core import Primitive
from weft.extend.interpreters import ad, batching, mlir

logit_p = Primitive("logit")
logit_p.def_abstract_eval(lambda x: x)


def logit(x):
    return logit_p.bind(x)


def logit_lower(context, x):
    return mlir.hlo.log(
        mlir.hlo.divide(x, mlir.hlo.negate(mlir.hlo.exponential_minus_one(mlir.hlo.log(x))))
    )


mlir.register_lowering(logit_p, logit_lower)
ad.register_jvp(
    logit_p,
    lambda primals, tangents: (logit(*primals), tangents[0] / (primals[0] * (1 - primals[0]))),
)
batching.register_vmap(logit_p, lambda axis, args, dims: (logit(*args), dims[0]))


def logit_inverse(results, operands):
    x = 1 / (1 + jnp.exp(-results[0]))
    return [x], jnp.log(x) + jnp.log1p(-x)


def test_the_error_tells_how_to_register():
    x = jnp.array([0.2, 0.7])
    with pytest.raises(NotInvertibleError, match="2 of its operands"):
        inverse(lambda x: jnp.log(x / (1 - x)))(x)
    with pytest.raises(NotInvertibleError, match="logit cannot be inverted here") as info:
        inverse(logit)(logit(x))
    call = info.value.fix.text.split("inversion.", 1)[1]
    eval(call, {"register_inverse": register_inverse, "logit_p": logit_p, "rule": logit_inverse})
    found, log_det = weft.jit(inverse_and_log_det(logit))(logit(x))
    np.testing.assert_allclose(found, x, rtol=1e-6)
    np.testing.assert_allclose(log_det, np.sum(np.log(x) + np.log1p(-np.asarray(x))), rtol=1e-5)
    np.testing.assert_allclose(weft.vmap(inverse(logit))(logit(x)), x, rtol=1e-6)
    with pytest.raises(WeftValueError, match="has an inverse already"):
        register_inverse(logit_p, logit_inverse)
