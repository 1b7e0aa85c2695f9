"""What does not fit together is an error of weft's, where it stands; what cannot run says so."""

from __future__ import annotations

import functools

import numpy as np
import pytest

import weft
import weft.numpy as jnp
from experimental.pallas.kernel_calls import BLOCKS, F32, I32, S, V, call
from weft.errors import (
    ShapeError,
    TreeError,
    WeftNotImplementedError,
    WeftTypeError,
    WeftValueError,
)
from weft.experimental import pallas as pl
from weft.experimental.pallas import tpu

OUT = S((16,), F32)
ONES = jnp.ones(16)


def copied(x, o):
    o[...] = x[...]


def test_compiled_kernels_are_refused_at_the_call():
    run = pl.pallas_call(copied, OUT, grid=4)  # no error yet
    with pytest.raises(WeftNotImplementedError, match="is not available as a compiled kernel") as e:
        run(V)
    assert e.value.fix.data == {"interpret": True}
    with tpu.force_tpu_interpret_mode():
        run = pl.pallas_call(copied, OUT)
    np.testing.assert_array_equal(run(V), V)


@pytest.mark.parametrize(
    ("error", "says", "kernel", "described"),
    [
        (WeftTypeError, "the kernel one cannot be called with 2", lambda x: None, {"name": "one"}),
        (WeftTypeError, "with 3 arg", copied, {"scratch_shapes": [tpu.VMEM((1,), F32)]}),
        (WeftTypeError, "with 3 arg", copied, {"scratch_shapes": {"tmp": tpu.VMEM((1,), F32)}}),
        (WeftValueError, "returns a value", lambda x, o: x[...], {}),
        (WeftValueError, "a reference to f32 holds no i32", lambda x, o: o.set(I32(1)), {}),
        (ShapeError, "does not have the shape", lambda x, o: o.set(x[:3]), {}),
        (TreeError, "in_specs and of the operands", copied, {"in_specs": [BLOCKS, BLOCKS]}),
        (TreeError, "in_specs and of the operands", copied, {"in_specs": BLOCKS}),
        (TreeError, "out_specs and of out_shape", copied, {"out_specs": (BLOCKS,)}),
        (ShapeError, r"of args\[0\] has an", copied, {"in_specs": [pl.BlockSpec((2, 2))]}),
        (ShapeError, "of outputs has an", copied, {"out_specs": pl.BlockSpec(())}),
        (WeftValueError, "no operand and result of one", copied, {"input_output_aliases": {1: 0}}),
        (WeftTypeError, "takes a function first", 3, {}),
    ],
)
def test_parts_that_do_not_fit(error, says, kernel, described):
    with pytest.raises(error, match=says):
        call(kernel, OUT, **{"grid": 4, **described})(V)


def test_results_are_described():
    with pytest.raises(WeftTypeError, match="says the shapes and dtypes") as caught:
        call(copied, 3)(V)
    assert caught.value.wanted == "a ShapeDtypeStruct, or a tree of those"


@pytest.mark.parametrize(
    ("error", "says", "index_map"),
    [
        (WeftTypeError, r"index map of args\[0\] cannot be called with 1", lambda: 0),
        (WeftTypeError, "cannot be called with 1", lambda i, j: (i,)),
        (WeftValueError, "returns 2 indices for 1 dim", lambda i: (i, 0)),
        (WeftTypeError, "something else than integers", lambda i: i / 2),
        (WeftTypeError, "something else than integers", lambda i: None),
        (WeftValueError, "closes over arrays", lambda i: ONES.astype(I32)[i]),
    ],
)
def test_index_maps_that_do_not_fit(error, says, index_map):
    with pytest.raises(error, match=says):
        call(copied, OUT, grid=4, in_specs=[pl.BlockSpec((4,), index_map)], out_specs=BLOCKS)(V)


def closing_over(array):
    def kernel(x, o):
        @pl.when(pl.program_id(0) == 0)
        def _():
            o[...] = x[...] + array

    return kernel


@pytest.mark.parametrize("array", [jnp.ones(16), np.ones(16, F32)])
def test_kernels_that_close_over_arrays(array):
    taken = functools.partial(lambda array, x, o: o.set(x[...] + array), array)
    of_globals = lambda x, o: o.set(x[...] + ONES)  # noqa: E731 - the shortest kernel there is
    for kernel in (closing_over(array), taken, of_globals):
        with pytest.raises(WeftValueError, match="closes over arrays") as caught:
            call(kernel, OUT, grid=1)(V)
        assert "f32[16]" in caught.value.got
    with pytest.raises(WeftValueError, match="closes over arrays"):
        weft.jit(lambda array: call(closing_over(array), OUT, grid=1)(V))(2.0)


def test_constants_of_kernels():
    def kernel(x, o):
        ends = x[np.array([0, 15])] + jnp.linspace(0, 1, 2) + jnp.int32(2)
        o[...] = x[...] + ends.sum() + jnp.array([1.0, 2.0]).sum()

    wanted = V + V[0] + V[15] + 8
    np.testing.assert_allclose(call(kernel, OUT)(V), wanted, rtol=1e-6)


def test_buffers_end_with_their_scope():
    kept = []
    pl.run_scoped(kept.append, tpu.VMEM((2,), F32))
    with pytest.raises(WeftValueError, match="after it was out of scope"):
        kept[0][...]
