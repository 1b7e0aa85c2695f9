"""What linear algebra and callbacks call in programs for NVIDIA GPUs, read where there is none.

tests/gpu runs the same on a GPU, and compares values.
"""

from __future__ import annotations

import re

import numpy as np
import pytest

import weft
import weft.numpy as jnp
from weft.lax import linalg
from weft.runtime.backends import cusolver

pytestmark = pytest.mark.fast

REAL, COMPLEX = np.ones((2, 4, 4), np.float32), np.ones((2, 4, 4), np.complex64)
WIDE, LARGE = np.ones((2, 3, 5), np.float32), np.ones((1100, 1030), np.float32)
VECTOR = np.ones(4, np.float32)


def lowered(function, *args):
    return weft.jit(function).trace(*args).lower(lowering_platforms=("cuda",)).as_text()


def targets(text):
    return set(re.findall(r"custom_call @(\w+)", text))


@pytest.mark.parametrize(
    ("function", "args", "wanted"),
    [
        (jnp.linalg.qr, (REAL,), {"cusolver_geqrf_ffi", "cusolver_orgqr_ffi"}),
        (jnp.linalg.qr, (COMPLEX,), {"cusolver_geqrf_ffi", "cusolver_orgqr_ffi"}),
        (jnp.linalg.svd, (WIDE,), {"cusolver_gesvdj_ffi"}),
        (jnp.linalg.svd, (LARGE,), {"cusolver_gesvd_ffi"}),
        (jnp.linalg.eigh, (COMPLEX,), {"cusolver_syevd_ffi"}),
        (jnp.linalg.eig, (REAL,), {"cusolver_geev_ffi"}),
        (jnp.linalg.cholesky, (REAL,), {"cusolver_potrf_ffi"}),
        (jnp.linalg.inv, (REAL,), {"cusolver_getrf_ffi"}),
        (linalg.tridiagonal, (COMPLEX,), {"cusolver_sytrd_ffi"}),
        (
            lambda d, b: linalg.tridiagonal_solve(d, d, d, b[0]), (VECTOR, REAL),
            {"cusparse_gtsv2_ffi"},
        ),
        (
            lambda x: weft.pure_callback(np.sin, weft.ShapeDtypeStruct((4,), np.float32), x),
            (VECTOR,),
            {"xla_ffi_python_gpu_callback"},
        ),
    ],
)  # fmt: skip
def test_kernels(function, args, wanted):
    found = targets(lowered(function, *args))
    assert found == wanted
    assert {name for name in found if "callback" not in name} <= cusolver.TARGETS


def test_a_transposed_matrix_is_passed_row_by_row():
    """cuSOLVER's QR needs as many rows as columns, or more."""
    text = lowered(jnp.linalg.svd, np.ones((1030, 1100), np.float32))
    call = next(line for line in text.splitlines() if "gesvd_ffi" in line)
    assert "transposed = true" in call
    assert "operand_layouts = [dense<[1, 0]>" in call
    text = lowered(jnp.linalg.svd, LARGE)
    call = next(line for line in text.splitlines() if "gesvd_ffi" in line)
    assert "transposed = false" in call
    assert "operand_layouts = [dense<[0, 1]>" in call


@pytest.mark.parametrize("function", [linalg.schur, linalg.hessenberg, lambda x: linalg.eig(x)[1]])
def test_what_has_no_kernel_is_said(function):
    with pytest.raises(weft.errors.WeftNotImplementedError, match="not there on cuda") as raised:
        lowered(function, REAL)
    assert "backend='cpu'" in raised.value.fix.text


def test_exports_for_both_platforms():
    """A program for both keeps each one's kernels apart."""
    exported = weft.export.export(weft.jit(jnp.linalg.eigvalsh), platforms=("cpu", "cuda"))(REAL)
    np.testing.assert_allclose(exported.call(REAL), np.linalg.eigvalsh(REAL), atol=1e-5)


def test_doubles_are_products_of_doubles():
    def product(x):
        return weft.lax.dot_general(
            x, x, (((1,), (0,)), ((), ())), preferred_element_type=np.float64
        )

    with weft.enable_x64():
        text = lowered(product, np.ones((2, 2), np.float32))
    call = next(line for line in text.splitlines() if "dot_general" in line)
    assert "(tensor<2x2xf64>, tensor<2x2xf64>)" in call
