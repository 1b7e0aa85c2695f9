"""Batches of matrices: the parts in which LAPACK is given them, none of which waits for others."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import textwrap

import numpy as np
import pytest

import weft
import weft.numpy as wnp
from closeness import equal
from source_files import ROOT
from weft.lax import linalg
from weft.ops.linalg.qr import geqrf
from weft.runtime.backends import batched_calls

RNG = np.random.default_rng(7)


def matrices(*shape, dtype=np.float32):
    """Matrices that are Hermitian and positive definite."""
    made = RNG.normal(size=shape)
    if np.dtype(dtype).kind == "c":
        made = made + 1j * RNG.normal(size=shape)
    return (made @ np.conj(made.swapaxes(-1, -2)) + shape[-1] * np.eye(shape[-1])).astype(dtype)


def solve(a):
    return linalg.triangular_solve(a, a + 1, left_side=True, lower=True)


def tridiagonal(a):
    below, inside, above = a[..., 0].at[..., 0].set(0), a[..., 1], a[..., 2].at[..., -1].set(0)
    return linalg.tridiagonal_solve(below, inside + 99, above, a)


def rotated(a):
    packed, taus = geqrf(a)
    return linalg.ormqr(packed, taus, a)


# Every routine that weft calls with a batch.
ROUTINES = {
    "trsm": solve,
    "potrf": linalg.cholesky,
    "getrf": linalg.lu,
    "geqrf and orgqr": lambda a: linalg.qr(a, full_matrices=False),
    "geqp3": lambda a: linalg.qr(a, pivoting=True, full_matrices=False),
    "ormqr": rotated,
    "syevd": linalg.eigh,
    "gesdd": lambda a: linalg.svd(a, full_matrices=False),
    "geev": linalg.eig,
    "gees": linalg.schur,
    "gehrd": linalg.hessenberg,
    "sytrd": linalg.tridiagonal,
    "gtsv": tridiagonal,
}
BATCHES = {"equal parts": (90,), "a shorter part": (37,), "rounds": (331,), "two": (5, 23)}


def calls_of(text):
    """The name, and how many matrices it is for, of every call of LAPACK in a module."""
    found = re.findall(r"@lapack_\w?(\w+)_ffi\(.*?\) \{.*?: \((.*?)\) -> (.*)", text)
    first = [(name, re.search(r"tensor<([\dx]+)x", operands)[1]) for name, operands, _ in found]
    return [(name, [int(n) for n in shape.split("x")]) for name, shape in first]


@pytest.mark.parametrize("batch", BATCHES.values(), ids=BATCHES)
@pytest.mark.parametrize("function", ROUTINES.values(), ids=ROUTINES)
def test_a_batch_in_parts_has_the_bits_of_each_matrix(function, batch, monkeypatch):
    monkeypatch.setattr(batched_calls, "_UNSPLIT_SINCE", (99,))
    monkeypatch.setattr(batched_calls, "_WORTH_SPLITTING", 8_000)
    a = wnp.asarray(matrices(*batch, 16, 16))
    flat = a.reshape(-1, 16, 16)
    found = weft.jit(lambda a: function(a))(a)
    one = weft.jit(lambda a: function(a))
    each = [one(x) for x in flat]
    expected = weft.tree.map(lambda *rows: np.stack(rows).reshape(*batch, *rows[0].shape), *each)
    weft.tree.map(equal, found, expected)


@pytest.mark.parametrize("dtype", [np.float32, np.complex64])
@pytest.mark.parametrize("function", ROUTINES.values(), ids=ROUTINES)
def test_no_call_is_worth_splitting(function, dtype, monkeypatch):
    monkeypatch.setattr(batched_calls, "_UNSPLIT_SINCE", (99,))
    a = wnp.asarray(matrices(700, 24, 24, dtype=dtype))
    if function is tridiagonal:
        a = wnp.concatenate([a] * 8, -1)
    text = weft.jit(lambda a: function(a)).lower(a).as_text()
    calls = calls_of(text)
    assert calls
    assert len(calls) >= 9
    for name, (count, *shape) in calls:
        work = count * np.prod(shape) * min(shape) / (3 if name == "potrf" else 1)
        assert count == 1 or work < 200_000, (name, count, shape)


def test_small_batches_and_single_matrices_are_one_call():
    for shape in ((16, 16), (1, 64, 64), (20, 8, 8)):
        text = weft.jit(linalg.cholesky).lower(matrices(*shape)).as_text()
        assert text.count("lapack_spotrf_ffi") == 1
        assert "stablehlo.while" not in text


def test_releases_that_split_no_batch_get_one_call(monkeypatch):
    monkeypatch.setattr(batched_calls, "_UNSPLIT_SINCE", (0, 1))
    text = weft.jit(lambda a: linalg.cholesky(a)).lower(matrices(900, 16, 16)).as_text()
    assert text.count("lapack_spotrf_ffi") == 1


# ---- programs that hung --------------------------------------------------------------------------

SEVERAL = """
    import numpy as np, weft, weft.numpy as wnp
    from weft.lax import linalg
    rng = np.random.default_rng(0)
    a = np.tril(rng.normal(size=({batch}, 32, 32))).astype("f") + 10 * np.eye(32, dtype="f")
    bs = [rng.normal(size=({batch}, 32, 32)).astype("f") for _ in range(12)]
    def function(a, bs):
        return [linalg.triangular_solve(a + i, b, left_side=True) for i, b in enumerate(bs)]
"""
PROGRAMS = {
    "several calls in one program": SEVERAL.format(batch=40)
    + """
    f = weft.jit(function)
    for _ in range(400):
        weft.block_until_ready(f(a, bs))
    print("done")
    """,
    "calls on several devices": SEVERAL.format(batch=160)
    + """
    P = weft.sharding.PartitionSpec
    mesh = weft.make_mesh((4,), ("i",))
    f = weft.jit(weft.shard_map(function, mesh=mesh, in_specs=P("i"), out_specs=P("i")))
    for _ in range(40):
        weft.block_until_ready(f(a, bs))
    print("done")
    """,
}


@pytest.mark.parametrize("code", PROGRAMS.values(), ids=PROGRAMS)
def test_calls_that_run_at_once_do_not_wait_for_each_other(code):
    """XLA's pool has two threads here (four for four devices), as many as wait at once."""
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "PJRT_NPROC": "2",
        "WEFT_NUM_CPU_DEVICES": "4" if "mesh" in code else "1",
        "OPENBLAS_NUM_THREADS": "1",
    }
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.stdout.strip() == "done", done.stderr
