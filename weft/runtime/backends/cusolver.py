"""Factorizations and solvers for matrices on NVIDIA GPUs: what stands there for LAPACK's routines.

The kernels wrap cuSOLVER, cuBLAS and cuSPARSE (https://docs.nvidia.com/cuda) and come with the CUDA
plugin; `cuda_plugin` registers them. Here a call of a routine of LAPACK, as the rules for the CPU
make it, becomes one of a kernel, and its results become those of the routine.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from weft.runtime import ffi_operation, stablehlo
from weft.runtime.stablehlo.mlir import ir

Values = list[Any]

# Routines with operands and results as in LAPACK, and what the kernel is told.
_ALIKE: dict[str, tuple[str, Any]] = {
    "geqrf": ("cusolver_geqrf_ffi", lambda given: {}),
    "orgqr": ("cusolver_orgqr_ffi", lambda given: {}),
    "ungqr": ("cusolver_orgqr_ffi", lambda given: {}),
    "ormqr": ("cusolver_ormqr_ffi", dict),
    "unmqr": ("cusolver_ormqr_ffi", dict),
    "getrf": ("cusolver_getrf_ffi", lambda given: {}),
    "potrf": ("cusolver_potrf_ffi", lambda given: {"lower": given["uplo"] == "L"}),
    # The algorithm is cuSOLVER's choice (0): Jacobi's for batches of small matrices.
    "syevd": (
        "cusolver_syevd_ffi",
        lambda given: {"lower": given["uplo"] == "L", "algorithm": np.uint8(0)},
    ),
    "sytrd": ("cusolver_sytrd_ffi", lambda given: {"lower": given["uplo"] == "L"}),
    "tridiagonal_solve_perturbed": ("cu_tridiagonal_solve_perturbed", lambda given: {}),
}
_ALIKE |= {"heevd": _ALIKE["syevd"], "hetrd": _ALIKE["sytrd"]}

_GESVD, _GESVDJ = "cusolver_gesvd_ffi", "cusolver_gesvdj_ffi"
_GEEV, _GTSV = "cusolver_geev_ffi", "cusparse_gtsv2_ffi"

TARGETS = frozenset(target for target, _ in _ALIKE.values()) | {_GESVD, _GESVDJ, _GEEV, _GTSV}
"""The names of the kernels."""

# Above this size Jacobi's method takes longer than QR's; up to _BATCHED it computes a whole batch
# at once, and then knows full matrices only. By NVIDIA's talk S9226 at GTC 2019.
_JACOBI, _BATCHED = 1024, 32


def has(routine: str, attributes: Mapping[str, Any]) -> bool:
    """Whether there is a kernel for a routine. None computes left eigenvectors."""
    if routine == "geev":
        return attributes["compute_left"] == "N"
    return routine in _ALIKE or routine in _SPECIAL


def call(
    routine: str,
    operands: Sequence[ir.Value],
    result_types: Sequence[ir.Type],
    *,
    num_batch_dims: int,
    attributes: Mapping[str, Any],
    aliases: Mapping[int, int],
) -> Values:
    """The results of a routine that `has` knows, as LAPACK's kernels have them."""
    if special := _SPECIAL.get(routine):
        return special(operands, result_types, num_batch_dims, attributes)
    target, told = _ALIKE[routine]
    return _emit(target, operands, result_types, num_batch_dims, told(attributes), aliases)


def _emit(
    target: str, operands: Sequence[ir.Value], result_types: Sequence[ir.Type], num_batch_dims: int,
    attributes: Mapping[str, Any], aliases: Mapping[int, int], rows: bool = False,
) -> Values:  # fmt: skip
    """Calls a kernel with column-major matrices, or row-major ones if `rows`."""

    def order(type: ir.Type) -> tuple[int, ...]:
        return tuple(range(type.rank)) if rows else ffi_operation.columns(type, num_batch_dims)

    return ffi_operation.call(
        target,
        operands,
        result_types,
        attributes=attributes,
        operand_layouts=[order(x.type) for x in operands],
        result_layouts=[order(type) for type in result_types],
        aliases=aliases,
        has_side_effect=False,
        num_batch_dims=num_batch_dims,
    )[1]


# ---- routines with other operands or results ---------------------------------------------------


def _svd(
    operands: Sequence[ir.Value], types: Sequence[ir.Type], batch: int, given: Mapping[str, Any]
) -> Values:
    """LAPACK's gesdd and gesvd: [overwritten, s, u, vh, info]."""
    (x,) = operands
    m, n = x.type.shape[-2:]
    asked = {"compute_uv": given["mode"] != "N", "full_matrices": given["mode"] == "A"}
    if max(m, n) > _JACOBI:
        return _svd_by_qr(x, types, batch, asked, m < n)
    k = min(m, n)
    thin = not asked["full_matrices"] and k > _BATCHED
    front, dtype = tuple(x.type.shape[:batch]), stablehlo.dtype_of(x.type.element_type)
    u_type, v_type = (
        stablehlo.tensor_type((*front, size, k if thin else size), dtype) for size in (m, n)
    )
    # Its V is not V^H, and both are there whether they are asked for or not.
    asked["full_matrices"] = not thin
    results = [types[0], types[1], u_type, v_type, types[4]]
    copy, s, u, v, info = _emit(_GESVDJ, operands, results, batch, asked, {0: 0})
    if not asked["compute_uv"]:
        return [copy, s, u, v, info]
    vh = stablehlo.transpose(v, (*range(batch), batch + 1, batch))
    vh = stablehlo.conj(vh) if dtype.kind == "c" else vh
    return [copy, s, *(_first_of(x, t) for x, t in ((u, types[2]), (vh, types[3]))), info]


def _svd_by_qr(
    x: ir.Value, types: Sequence[ir.Type], batch: int, asked: dict[str, Any], wide: bool
) -> Values:
    """SVD by QR, which needs at least as many rows as columns. A wide matrix is passed row by row
    as its transpose, with U and V^H exchanged."""
    copy, s, u, vh, info = types
    if not asked["compute_uv"]:
        u = vh = stablehlo.tensor_type((), stablehlo.dtype_of(x.type.element_type))
    results = [copy, s, *((vh, u) if wide else (u, vh)), info]
    told = asked | {"transposed": wide}
    copy, s, u, vh, info = _emit(_GESVD, [x], results, batch, told, {0: 0}, rows=wide)
    return [copy, s, *((vh, u) if wide else (u, vh)), info]


def _first_of(x: ir.Value, type: ir.Type) -> ir.Value:
    """The leading elements of each dimension, as many as a type has."""
    sizes, own = tuple(type.shape), tuple(x.type.shape)
    return x if sizes == own else stablehlo.slice_(x, (0,) * len(sizes), sizes)


def _eig(
    operands: Sequence[ir.Value], types: Sequence[ir.Type], batch: int, given: Mapping[str, Any]
) -> Values:
    """LAPACK's geev: [eigenvalues (real and imaginary parts for real matrices), vl, vr, info]."""
    (x,) = operands
    *_, vl, vr, info = types
    front, n = tuple(x.type.shape[:batch]), x.type.shape[-1]
    values = stablehlo.tensor_type((*front, n), stablehlo.dtype_of(vr.element_type))
    told = {"left": False, "right": given["compute_right"] == "V"}
    results = [x.type, values, x.type, x.type, info]
    _, w, _, v, failed = _emit(_GEEV, operands, results, batch, told, {})
    none = stablehlo.full(0, tuple(vl.shape), stablehlo.dtype_of(vl.element_type))
    if stablehlo.dtype_of(x.type.element_type).kind == "c":
        return [w, none, v, failed]
    parts = [stablehlo.real(w), stablehlo.imag(w)]
    return [
        *parts,
        none,
        _unpack_eigenvectors(parts[1], v, batch) if told["right"] else none,
        failed,
    ]


def _unpack_eigenvectors(imaginary: ir.Value, v: ir.Value, batch: int) -> ir.Value:
    """Complex eigenvectors of real matrices. A pair of conjugates is packed as the real and the
    imaginary part of the first."""
    shape, column = tuple(v.type.shape), batch + 1
    n, rank = shape[-1], len(shape)
    zero = stablehlo.full(0, shape, stablehlo.dtype_of(v.type.element_type))
    origin, edge = (0,) * rank, stablehlo.slice_(zero, (0,) * rank, (*shape[:-1], 1))
    later, earlier = (*origin[1:], 1), (*shape[:-1], n - 1)
    following = stablehlo.concatenate([stablehlo.slice_(v, later, shape), edge], column)
    preceding = stablehlo.concatenate([edge, stablehlo.slice_(v, origin, earlier)], column)
    spread = stablehlo.broadcast_in_dim(imaginary, shape, (*range(batch), column))
    first, second = (stablehlo.compare(spread, zero, way) for way in ("GT", "LT"))
    real_part = stablehlo.select(second, preceding, v)
    other = stablehlo.select(second, stablehlo.negate(v), zero)
    return stablehlo.complex_(real_part, stablehlo.select(first, following, other))


def _tridiagonal_solve(
    operands: Sequence[ir.Value], types: Sequence[ir.Type], batch: int, given: Mapping[str, Any]
) -> Values:
    """LAPACK's gtsv: [three overwritten diagonals, solution, info]. The kernel takes three or more
    rows; fewer are padded with equations x = 0. A singular matrix is not reported: its results are
    infinite or NaN."""
    size = operands[1].type.shape[-1]
    *diagonals, b = operands
    if missing := max(0, 3 - size):
        dtype = stablehlo.dtype_of(b.type.element_type)
        zero, one = (stablehlo.full(value, (), dtype) for value in (0, 1))
        start, end = (0,) * (batch + 1), (0,) * batch + (missing,)
        diagonals = [
            stablehlo.pad(x, value, start, end)
            for x, value in zip(diagonals, (zero, one, zero), strict=True)
        ]
        b = stablehlo.pad(b, zero, (*start, 0), (*end, 0))
    (solved,) = _emit(_GTSV, [*diagonals, b], [b.type], batch, {}, {3: 0})
    info = stablehlo.full(0, tuple(types[4].shape), np.dtype(np.int32))
    return [*operands[:3], _first_of(solved, types[3]), info]


_SPECIAL = {"gesdd": _svd, "gesvd": _svd, "geev": _eig, "gtsv": _tridiagonal_solve}
