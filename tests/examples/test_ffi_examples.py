"""The examples of compiled kernels: compared with NumPy, SciPy and finite differences, under every
transformation, over eight devices, and run as programs."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from functools import partial

import numpy as np
import pytest
import scipy.linalg

import ffi_cases
import weft
import weft.numpy as jnp
from collective_counts import COMPILED
from source_files import ROOT
from weft import errors, testing
from weft.sharding import Mesh, NamedSharding, P

ffi_cases.needs(".c")
MESH = Mesh(np.array(weft.devices()), ("i",))


@pytest.fixture(scope="module")
def tridiagonal():
    return ffi_cases.example("tridiagonal")


@pytest.fixture(scope="module")
def rms_norm():
    ffi_cases.needs(".cc")
    return ffi_cases.example("rms_norm")


def system(*shape, seed=0):
    """Diagonals of matrices that need no pivoting, and a right side, in float64."""
    rng = np.random.default_rng(seed)
    lower, upper, right = (rng.normal(size=shape) for _ in range(3))
    return [jnp.asarray(x, dtype=jnp.float64) for x in (lower, 4 + 0 * lower, upper, right)]


def solved_by_scipy(lower, diagonal, upper, right, transposed):
    lower, diagonal, upper, right = (np.asarray(x) for x in (lower, diagonal, upper, right))
    if lower.ndim > 1:
        rows = zip(lower, diagonal, upper, right, strict=True)
        return np.stack([solved_by_scipy(*row, transposed) for row in rows])
    matrix = np.diag(diagonal) + np.diag(lower[1:], -1) + np.diag(upper[:-1], 1)
    return scipy.linalg.solve(matrix.T if transposed else matrix, right)


@pytest.mark.parametrize("shape", [(1,), (2,), (7,), (3, 5), (2, 3, 4), (0,), (3, 0)], ids=str)
def test_tridiagonal_systems(tridiagonal, shape):
    operands = system(*shape)
    wanted = {flag: np.zeros(shape) for flag in (False, True)}
    for flag, found in wanted.items():
        if found.size:
            flat = [np.asarray(x).reshape(-1, shape[-1]) for x in operands]
            wanted[flag] = solved_by_scipy(*flat, flag).reshape(shape)
    narrow = [x.astype(jnp.float32) for x in operands]
    for way in (lambda f: f, weft.jit):
        found = way(tridiagonal.solve)(*operands)
        np.testing.assert_allclose(found, wanted[False], rtol=1e-12, atol=1e-13)
        found = way(partial(tridiagonal.call, transposed=True))(*operands)
        np.testing.assert_allclose(found, wanted[True], rtol=1e-12, atol=1e-13)
        found = way(tridiagonal.solve)(*narrow)
        assert found.dtype == np.float32
        np.testing.assert_allclose(found, wanted[False], rtol=1e-4, atol=1e-5)


def test_derivatives_of_a_solution(tridiagonal):
    operands = system(5)
    testing.check_grads(tridiagonal.solve, tuple(operands), order=2, rtol=1e-6, atol=1e-6)
    gradient = weft.grad(lambda *xs: jnp.sum(tridiagonal.solve(*xs) ** 2), (0, 1, 2, 3))
    batch = system(4, 5, seed=1)
    mapped = weft.jit(weft.vmap(gradient))(*batch)
    for i in range(4):
        for found, wanted in zip(mapped, gradient(*(x[i] for x in batch)), strict=True):
            np.testing.assert_allclose(found[i], wanted, rtol=1e-12, atol=1e-13)


def test_systems_over_eight_devices_send_nothing(tridiagonal):
    operands = [weft.device_put(x, NamedSharding(MESH, P("i"))) for x in system(16, 5)]

    def loss(*operands):
        return jnp.sum(tridiagonal.solve(*operands) ** 2)

    f = weft.jit(tridiagonal.solve)
    wanted = solved_by_scipy(*operands, False)
    np.testing.assert_allclose(f(*operands), wanted, rtol=1e-12, atol=1e-13)
    gradient = weft.jit(weft.grad(loss, (0, 1, 2, 3)))
    for program in (f, gradient):
        assert not COMPILED.findall(program.lower(*operands).compile().as_text())
    alone = weft.grad(loss, (0, 1, 2, 3))(*system(16, 5))
    for found, expected in zip(gradient(*operands), alone, strict=True):
        assert found.sharding.is_equivalent_to(NamedSharding(MESH, P("i")), 2)
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-13)


def test_errors_of_the_tridiagonal_kernel(tridiagonal):
    lower, diagonal, upper, right = system(3)
    for operands, outs in (((lower, diagonal), right), ((lower,) * 4, (right, right)), ((), ())):
        with pytest.raises(errors.WeftError, match="4 operands, 1 result"):
            weft.block_until_ready(
                ffi_cases.call("tridiagonal_solve", outs, *operands, has_side_effect=True)
            )
    with pytest.raises(errors.WeftError, match="a pivot is zero"):
        np.asarray(tridiagonal.solve(lower, 0 * diagonal, upper, right))
    with pytest.raises(errors.WeftError, match="float32 or float64"):
        whole = [x.astype(jnp.int32) for x in (lower, diagonal, upper, right)]
        np.asarray(tridiagonal.call(*whole, False))
    with pytest.raises(errors.WeftError, match="operands of one type"):
        np.asarray(tridiagonal.call(lower.astype(jnp.float32), diagonal, upper, right, False))


@pytest.mark.smoke
def test_heat_is_traced_back(tridiagonal, capsys):
    assert tridiagonal.main(["--points", "60", "--steps", "5", "--descents", "60"]) == 0
    shown = capsys.readouterr().out
    before, after = re.search(r"kept: ([\d.]+) before, ([\d.]+) after", shown).groups()
    assert float(before) == pytest.approx(float(after), rel=1e-4)
    first, last = re.search(r"([\d.]+) at first, ([\d.]+) at last", shown).groups()
    assert float(last) < 0.1 * float(first)


# ---- the kernel in C++ ---------------------------------------------------------------------------


def normalized(x, eps):
    x = np.asarray(x, np.float64)
    return x / np.sqrt((x**2).mean(axis=-1, keepdims=True) + eps)


@pytest.mark.parametrize("shape", [(6,), (3, 6), (2, 3, 4), (3, 0), (0, 3)], ids=str)
def test_rms_norm(rms_norm, shape):
    x = np.random.default_rng(0).normal(size=shape).astype(np.float32)
    for way in (lambda f: f, lambda f: weft.jit(f, static_argnums=1)):
        np.testing.assert_allclose(
            way(rms_norm.rms_norm)(x, 0.1), normalized(x, 0.1) if x.size else x, rtol=1e-6
        )


def test_the_gradient_of_rms_norm(rms_norm):
    x = np.random.default_rng(0).normal(size=(4, 6)).astype(np.float32)
    along = np.random.default_rng(1).normal(size=(4, 6))
    weights = np.linspace(-1, 1, 6)
    gradient = weft.grad(lambda x: jnp.sum(rms_norm.rms_norm(x, 0.1) * weights.astype(np.float32)))
    found = weft.jit(gradient)(x)
    h = 1e-5
    up, down = (np.sum(normalized(x + s * h * along, 0.1) * weights) for s in (1, -1))
    assert float(np.sum(np.asarray(found) * along)) == pytest.approx(
        (up - down) / (2 * h), rel=1e-5
    )
    np.testing.assert_allclose(weft.vmap(gradient)(x), found, rtol=1e-6, atol=1e-7)
    sharded = weft.device_put(np.tile(x, (2, 1)), NamedSharding(MESH, P("i")))
    f = weft.jit(gradient)
    np.testing.assert_allclose(f(sharded), np.tile(found, (2, 1)), rtol=1e-6, atol=1e-7)
    assert not COMPILED.findall(f.lower(sharded).compile().as_text())


def test_a_handler_in_cpp_checks_what_it_is_called_with(rms_norm):
    x = np.ones(3, np.float32)
    outs = (ffi_cases.Struct((3,), np.float32), ffi_cases.Struct((), np.float32))
    for attributes, text in (({"eps": 1.0}, "expected F32 but got F64"), ({}, "attribute")):
        with pytest.raises(errors.WeftError, match=text):
            np.asarray(ffi_cases.call("rms_norm", outs, x, attributes=attributes)[0])
    with pytest.raises(errors.WeftError, match="dtype"):
        np.asarray(
            ffi_cases.call("rms_norm", outs, jnp.ones(3, jnp.int32),
                           attributes={"eps": np.float32(0)})[0]
        )  # fmt: skip


@pytest.mark.smoke
def test_rms_norm_runs_as_a_program(rms_norm, capsys):
    assert rms_norm.main() == 0
    differences = re.findall(r"differ by ([\d.e-]+)", capsys.readouterr().out)
    assert len(differences) == 2 and all(float(d) < 1e-5 for d in differences)


# ---- building ------------------------------------------------------------------------------------


@pytest.mark.parametrize("cpp", [True, False])
def test_a_copy_of_the_examples_is_built_and_run_by_make(tmp_path, cpp):
    if shutil.which("make") is None:
        pytest.skip("no make on this machine")
    if cpp:
        ffi_cases.needs(".cc")
    copy = tmp_path / "ffi"
    shutil.copytree(ffi_cases.EXAMPLES, copy, ignore=shutil.ignore_patterns("__pycache__"))
    command = ["make", f"PYTHON={sys.executable}", *([] if cpp else ["CXX=no-such-compiler"])]
    environment = dict(os.environ) | {"TMPDIR": str(tmp_path), "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        command, cwd=copy, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "kept: " in done.stdout and ("gradients differ by" in done.stdout) == cpp
    assert ("rms_norm is left out" in done.stdout) != cpp
    built = {path.name.partition("-")[0] for path in tmp_path.rglob("*.so")}
    assert built == ({"tridiagonal", "rms_norm"} if cpp else {"tridiagonal"})


def test_a_library_is_built_once(tmp_path, monkeypatch):
    build = ffi_cases.example("build")
    monkeypatch.setattr(build.tempfile, "gettempdir", lambda: str(tmp_path))
    source = tmp_path / "kernel.c"
    source.write_text("int answer(void) { return 42; }\n", encoding="utf-8")
    assert build.load(source).answer() == 42
    first = build.build(source)
    monkeypatch.setattr(subprocess, "run", lambda *a, **k: pytest.fail("compiled again"))
    assert build.build(source) == first
    monkeypatch.setenv("CC", "no-such-compiler")
    with pytest.raises(FileNotFoundError, match="set CC"):
        build.build(source)
    assert build.compiler(".c") is None
