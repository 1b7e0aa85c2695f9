"""JAX's names on weft's classes: there after an import of `weft.extend` or `weft.as_jax` alone."""

import subprocess
import sys

import pytest

import weft
import weft.extend
import weft.numpy as jnp
from weft import lax
from weft.define.for_jax.jax_names import NAMES, NEUTRAL, PrimitiveOfJax
from weft.extend.core import Primitive

# Methods that weft's classes have too, under the same name.
SHARED = {"Equation.replace"}
LOOK = """
import weft
from weft.core.jaxpr import Equation
from weft.core.primitive import Primitive
from weft.core.trace import Trace
from weft.core.types import ArrayType
from weft.lowering.module import LoweringContext, ModuleContext
from weft.ops.elementwise.arithmetic import exp_p

def found():
    classes = (Trace, Primitive, ArrayType, Equation, ModuleContext, LoweringContext)
    return {f"{cls.__name__}.{name}" for cls in classes for name in vars(cls)}, type(exp_p)

before, plain = found()
import MODULE
after, own = found()
print(*sorted(after - before), plain is Primitive and own is not Primitive)
"""


@pytest.mark.parametrize("module", ["weft.extend", "weft.as_jax"])
def test_an_import_adds_the_names(module):
    program = [sys.executable, "-c", LOOK.replace("MODULE", module)]
    *names, changed = subprocess.run(program, capture_output=True, check=True).stdout.split()
    wanted = {f"{cls.__name__}.{name}" for cls, row in NAMES.items() for name in row}
    assert {name.decode() for name in names} == wanted - SHARED
    assert changed == b"True"


def test_equations_are_read_and_replaced_by_either_name():
    (eqn,) = weft.make_jaxpr(lax.sin)(1.0).eqns
    assert eqn.invars is eqn.inputs and eqn.outvars is eqn.outputs and eqn.ctx is None
    other = eqn.replace(invars=list(eqn.outvars), source_info=eqn.source_info)
    assert other.inputs == eqn.outputs and other.outputs == eqn.outputs


@pytest.mark.parametrize("primitive", NEUTRAL, ids=str)
def test_parameters_that_ask_for_nothing_are_dropped(primitive):
    assert type(primitive) is PrimitiveOfJax and isinstance(primitive, Primitive)
    taken, x = {}, jnp.ones(2)

    class Noting(weft.extend.core.Trace):
        def process_primitive(self, primitive, args, params):
            taken.update(params)

    with weft.extend.core.using_trace(Noting(None, "noting")):
        primitive.bind(x, **primitive.neutral, kept=1)
        assert taken == {"kept": 1}
        name = next(iter(primitive.neutral))
        primitive.bind(x, **{name: "something"})
    assert taken == {"kept": 1, name: "something"}
