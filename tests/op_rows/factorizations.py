"""Rows of the factorizations of `weft.lax.linalg`.

Where a factorization leaves its vectors a sign or a phase, the row is a function that does not
depend on it; the conventions themselves are in `test_lax_linalg.py`.
"""

from __future__ import annotations

import numpy as np
import scipy.linalg

import weft.numpy as wnp
from op_rows.matrices import positive
from op_table import Arg, Op, between
from weft import dtypes
from weft.numpy.linalg import polar
from weft.ops.linalg import eig, eigh, householder, lu, qr, rank_updates, schur, svd, tridiagonal
from weft.ops.linalg.matrices import ACCEPTED
from weft.testing import exact_array

SINGLE = 2.0**8  # in units in the last place, of numbers around 1


def row(function, reference, shape, draw, name, **fields):
    given = {"ulps": SINGLE, "floor": 4.0, "elementwise": False, "weak": None, **fields}
    args = given.pop("args", (Arg(shape),))
    accepts = given.pop("accepts", ACCEPTED)
    return Op(function, reference, accepts, args=args, draw=draw, name=name, **given)


def adjoint(x):
    return x.swapaxes(-1, -2).conj()


def spread(generator, shape, dtype):
    """Matrices with eigenvalues, or singular values, that are well apart."""
    x = between(-0.5, 0.5)(generator, shape, dtype)
    return (x + np.eye(*shape[-2:]) * 2 * np.arange(1, shape[-1] + 1)).astype(dtype)


def terms(x, y, xp):
    """The products of column k of x with the conjugate of column k of y, for all k."""
    return x[..., :, None, :] * xp.conj(y)[..., None, :, :]


def batched(function):
    """A function of one matrix, applied to each of a batch."""

    def applied(x, **params):
        if x.ndim == 2:
            return function(x, **params)
        found = [applied(part, **params) for part in x]
        return tuple(np.stack(each) for each in zip(*found, strict=True))

    return applied


# ---- spectra -----------------------------------------------------------------------------------


def eigh_terms(x, **params):
    v, w = eigh.eigh(x, **params)
    return w, terms(v, v, wnp)


def eigh_reference(x, lower=True, symmetrize_input=True, subset_by_index=None):
    if symmetrize_input:
        x = (x + adjoint(x)) / 2
    w, v = np.linalg.eigh(x, UPLO="L" if lower else "U")
    if subset_by_index:
        start, stop = subset_by_index
        w, v = w[..., start:stop], v[..., start:stop]
    return w, terms(v, v, np)


def svd_terms(x, **params):
    u, s, vh = svd.svd(x, full_matrices=False, **params)
    return s, terms(u, wnp.conj(wnp.swapaxes(vh, -1, -2)), wnp)


def svd_reference(x, subset_by_index=None, algorithm=None):
    u, s, vh = np.linalg.svd(x, full_matrices=False)
    if subset_by_index:
        start, stop = subset_by_index
        u, s, vh = u[..., start:stop], s[..., start:stop], vh[..., start:stop, :]
    return s, terms(u, adjoint(vh), np)


def singular_values(x):
    return svd.svd(x, compute_uv=False)


def eig_terms(x):
    """Eigenvalues by their real parts, with the projection to the space of each."""
    w, vl, vr = eig.eig(x, enable_eigvec_derivs=True)
    scale = wnp.sum(wnp.conj(vl) * vr, axis=-2)
    parts = terms(vr, vl, wnp) / scale[..., None, None, :]
    order = wnp.argsort(wnp.real(w), axis=-1)
    shown = wnp.broadcast_to(order[..., None, None, :], parts.shape)
    return wnp.take_along_axis(w, order, -1), wnp.take_along_axis(parts, shown, -1)


def eig_reference(x):
    w, v = np.linalg.eig(x.astype(np.complex128))
    order = np.argsort(w.real, axis=-1)
    v = np.take_along_axis(v, order[..., None, :], -1)
    inverse = np.linalg.inv(v)
    parts = v[..., :, None, :] * inverse.swapaxes(-1, -2)[..., None, :, :]
    return np.take_along_axis(w, order, -1), parts


def eig_alone(x):
    [w] = eig.eig(x, compute_left_eigenvectors=False, compute_right_eigenvectors=False)
    return w


def eigenvalues(x):
    w = eig_alone(x)
    return wnp.take_along_axis(w, wnp.argsort(wnp.real(w), axis=-1), -1)


# ---- triangles and reflections -----------------------------------------------------------------


@batched
def lu_reference(x):
    x, pivots, order = x.copy(), [], np.arange(x.shape[0])
    for i in range(min(x.shape)):
        # LAPACK measures complex numbers so when it looks for a pivot.
        best = i + int(np.argmax(np.abs(x[i:, i].real) + np.abs(x[i:, i].imag)))
        pivots.append(best)
        x[[i, best]], order[[i, best]] = x[[best, i]], order[[best, i]]
        x[i + 1 :, i] /= x[i, i]
        x[i + 1 :, i + 1 :] -= np.outer(x[i + 1 :, i], x[i, i + 1 :])
    return x, np.array(pivots, np.int32), order.astype(np.int32)


@batched
def qr_reference(x, pivoting=False, full_matrices=True):
    q, r, *order = scipy.linalg.qr(
        x, mode="full" if full_matrices else "economic", pivoting=pivoting
    )
    return q, r, *(p.astype(np.int32) for p in order)


@batched
def raw_reference(x):
    (packed, taus), _ = scipy.linalg.qr(x, mode="raw")
    return packed, taus


@batched
def pivoted_raw_reference(x):
    (packed, taus), _, order = scipy.linalg.qr(x, mode="raw", pivoting=True)
    return packed, taus, order.astype(np.int32)


def reflections(a, taus):
    """The product of Householder reflections, one factor after the other."""
    m = a.shape[-2]
    q = np.eye(m)
    for i in range(taus.shape[-1]):
        v = np.where(np.arange(m) > i, a[..., :, i], 0) + np.eye(m)[i]
        outer = v[..., :, None] * v.conj()[..., None, :]
        q = q @ (np.eye(m) - taus[..., i, None, None] * outer)
    return q


def product_reference(a, taus):
    return reflections(a, taus)[..., : a.shape[-1]]


def multiplied(a, taus, c, left=True, transpose=False):
    q = reflections(a, taus)
    q = adjoint(q) if transpose else q
    return q @ c if left else c @ q


def reflection_rows():
    arrays = (between(-1, 1), between(0.5, 1.5), between(-1, 1))
    for left in (False, True):
        for transpose in (False, True):
            c = (2, 4, 3) if left else (2, 3, 4)
            yield row(
                householder.ormqr,
                multiplied,
                (),
                arrays,
                f"ormqr left={left} transpose={transpose}",
                args=(Arg((2, 4, 3)), Arg((2, 2)), Arg(c)),
                params={"left": left, "transpose": transpose},
                order=2 if left and transpose else 1,
                vmap_limit=4,
            )


# ---- forms that are checked by what they are ---------------------------------------------------


def drawn(row, dtype):
    [host] = row.host_operands(dtype)
    wide = host.astype(np.result_type(dtype, np.float64))
    bound = 100 * float(dtypes.finfo(dtype).eps)
    return host, wide, bound


def outside(packed, taus):
    """The unitary matrix of a reduction to Hessenberg or tridiagonal form."""
    n = packed.shape[-1]
    q = np.zeros((*packed.shape[:-2], n, n), packed.dtype)
    q[..., 0, 0] = 1
    q[..., 1:, 1:] = reflections(packed[..., 1:, :-1], taus)
    return q


def is_schur_form(row, dtype):
    host, wide, bound = drawn(row, dtype)
    t, z = (np.asarray(x).astype(wide.dtype) for x in row.call(exact_array(host)))
    np.testing.assert_allclose(z @ t @ adjoint(z), wide, atol=bound)
    np.testing.assert_allclose(adjoint(z) @ z, np.broadcast_to(np.eye(4), z.shape), atol=bound)
    below = np.tril(t, -1 if dtype in dtypes.COMPLEX else -2)
    np.testing.assert_array_equal(below, np.zeros_like(below))
    [alone] = schur.schur(exact_array(host), compute_schur_vectors=False)
    np.testing.assert_allclose(np.asarray(alone), t, atol=bound)


def is_hessenberg_form(row, dtype):
    host, wide, bound = drawn(row, dtype)
    packed, taus = (np.asarray(x).astype(wide.dtype) for x in row.call(exact_array(host)))
    q = outside(packed, taus)
    np.testing.assert_allclose(q @ np.triu(packed, -1) @ adjoint(q), wide, atol=bound)


def is_tridiagonal_form(row, dtype):
    host, wide, bound = drawn(row, dtype)
    lower = row.params["lower"]
    own = np.tril(wide, -1) if lower else np.triu(wide, 1)
    wide = own + adjoint(own) + np.eye(4) * wide.real
    packed, d, e, taus = (np.asarray(x) for x in row.call(exact_array(host)))
    assert d.dtype == e.dtype == dtypes.to_real(dtype)
    t = np.zeros_like(wide)
    at = np.arange(4)
    t[..., at, at] = d
    t[..., at[1:], at[:-1]] = t[..., at[:-1], at[1:]] = e
    np.testing.assert_array_equal(np.diagonal(packed, 0, -2, -1).real, d)
    np.testing.assert_allclose(np.linalg.eigvalsh(t), np.linalg.eigvalsh(wide), atol=bound)
    if lower:
        q = outside(packed.astype(wide.dtype), taus.astype(wide.dtype))
        np.testing.assert_allclose(q @ t @ adjoint(q), wide, atol=bound)


# ---- solving and updates -----------------------------------------------------------------------


def tridiagonal_reference(dl, d, du, b, **_):
    m = d.shape[-1]
    a = np.zeros((*d.shape, m), d.dtype)
    at = np.arange(m)
    a[..., at, at] = d
    a[..., at[1:], at[:-1]] = dl[..., 1:]
    a[..., at[:-1], at[1:]] = du[..., :-1]
    return np.linalg.solve(a, b)


def permuted(pivots, permutation_size):
    def one(row):
        order = np.arange(permutation_size, dtype=np.int32)
        for i, j in enumerate(row):
            order[[i, j]] = order[[j, i]]
        return order

    return np.apply_along_axis(one, -1, pivots)


def pivots(generator, shape, dtype):
    count = shape[-1]
    found = [generator.integers(i, 5, shape[:-1]) for i in range(count)]
    return np.stack(found, -1).astype(dtype)


def factor_of_sum(r, w):
    r = np.triu(r)
    total = adjoint(r) @ r + w[..., :, None] * w.conj()[..., None, :]
    return adjoint(np.linalg.cholesky(total))


def symmetric_reference(a, c, alpha=1.0, beta=0.0, symmetrize_output=False):
    found = alpha * a @ a.swapaxes(-1, -2) + beta * c
    if symmetrize_output:
        found = np.tril(found) + np.tril(found, -1).swapaxes(-1, -2)
    return found


def polar_factors(x):
    return polar.qdwh(x)[:2]


def polar_reference(x):
    u, s, vh = np.linalg.svd(x, full_matrices=False)
    return u @ vh, (adjoint(vh) * s) @ vh


def tall(generator, shape, dtype):
    """Matrices whose columns are far from dependent."""
    x = between(-1, 1)(generator, shape, dtype)
    return (x + 3 * np.eye(*shape[-2:])).astype(dtype)


unit = between(-1, 1)
QR = {"pivoting": False, "full_matrices": False}

ROWS = [
    row(eigh_terms, eigh_reference, (3, 3), spread, "eigh"),
    row(
        eigh_terms,
        eigh_reference,
        (2, 3, 3),
        spread,
        "eigh of a lower triangle",
        params={"symmetrize_input": False},
        order=1,
    ),
    row(
        eigh_terms,
        eigh_reference,
        (3, 3),
        spread,
        "eigh of an upper triangle",
        params={"lower": False, "symmetrize_input": False, "subset_by_index": (1, 3)},
        order=1,
    ),
    row(eigh_terms, eigh_reference, (2, 0, 0), spread, "eigh of nothing", order=1),
    row(svd_terms, svd_reference, (3, 3), spread, "svd"),
    row(svd_terms, svd_reference, (3, 2), spread, "svd of a tall matrix"),
    row(svd_terms, svd_reference, (2, 2, 3), spread, "svd of wide matrices", order=1),
    row(
        svd_terms,
        svd_reference,
        (3, 3),
        spread,
        "svd by QR, in part",
        params={"algorithm": svd.SvdAlgorithm.QR, "subset_by_index": (0, 2)},
        order=1,
    ),
    row(svd_terms, svd_reference, (2, 0, 3), unit, "svd of nothing", order=1),
    row(
        singular_values,
        lambda x: np.linalg.svd(x, compute_uv=False),
        (4, 3),
        spread,
        "svd without vectors",
    ),
    row(eig_terms, eig_reference, (3, 3), spread, "eig", vmap_limit=4),
    row(eig_alone, np.linalg.eigvals, (2, 0, 0), spread, "eig of nothing", order=1),
    row(eigenvalues, lambda x: eig_reference(x)[0], (2, 3, 3), spread, "eig without vectors"),
    row(lu.lu, lu_reference, (3, 3), unit, "lu"),
    row(lu.lu, lu_reference, (2, 4, 3), unit, "lu of tall matrices", order=1),
    row(lu.lu, lu_reference, (2, 2, 3), unit, "lu of wide matrices", order=1),
    row(lu.solve, np.linalg.solve, (), (spread, unit), "solve", args=(Arg((3, 3)), Arg((3, 2)))),
    row(
        lu.lu_pivots_to_permutation,
        permuted,
        (2, 3),
        pivots,
        "lu_pivots_to_permutation",
        accepts=frozenset({dtypes.int32}),
        params={"permutation_size": 5},
        order=0,
        ulps=0,
        vmap=False,
    ),
    row(qr.qr, qr_reference, (3, 3), unit, "qr"),
    row(qr.qr, qr_reference, (2, 4, 3), tall, "qr of tall matrices", params=QR),
    row(qr.qr, qr_reference, (4, 2), unit, "qr with a whole basis", order=0),
    row(qr.qr, qr_reference, (2, 2, 3), unit, "qr of wide matrices", params=QR, order=1),
    row(
        qr.qr,
        qr_reference,
        (4, 3),
        unit,
        "qr with pivots",
        params={"pivoting": True, "full_matrices": False},
        order=1,
    ),
    row(qr.geqrf, raw_reference, (4, 3), unit, "geqrf"),
    row(qr.geqrf, raw_reference, (2, 2, 3), unit, "geqrf of wide matrices", order=1),
    row(qr.geqp3, pivoted_raw_reference, (3, 3), unit, "geqp3", order=1),
    row(
        householder.householder_product,
        product_reference,
        (),
        (unit, between(0.5, 1.5)),
        "householder_product",
        args=(Arg((2, 4, 3)), Arg((2, 2))),
    ),
    *reflection_rows(),
    row(schur.schur, None, (2, 4, 4), unit, "schur", order=0, property_of=is_schur_form),
    row(
        schur.hessenberg,
        None,
        (2, 4, 4),
        unit,
        "hessenberg",
        order=0,
        property_of=is_hessenberg_form,
    ),
    *(
        row(
            tridiagonal.tridiagonal,
            None,
            (2, 4, 4),
            unit,
            f"tridiagonal lower={lower}",
            params={"lower": lower},
            order=0,
            property_of=is_tridiagonal_form,
        )
        for lower in (True, False)
    ),
    *(
        row(
            tridiagonal.tridiagonal_solve,
            tridiagonal_reference,
            (),
            (unit, between(2, 3), unit, unit),
            f"tridiagonal_solve perturb_singular={perturb}",
            args=(Arg((2, 4)), Arg((2, 4)), Arg((2, 4)), Arg((2, 4, 3))),
            params={"perturb_singular": perturb},
            order=1 if perturb else 2,
            vmap_limit=6,
        )
        for perturb in (False, True)
    ),
    row(
        tridiagonal.tridiagonal_solve,
        tridiagonal_reference,
        (),
        (unit, between(2, 3), unit, unit),
        "tridiagonal_solve of one matrix",
        args=(Arg((4,)), Arg((4,)), Arg((4,)), Arg((4, 2))),
        order=1,
        vmap_limit=6,
    ),
    row(
        rank_updates.cholesky_update,
        factor_of_sum,
        (),
        (positive, unit),
        "cholesky_update",
        args=(Arg((2, 3, 3)), Arg((2, 3))),
    ),
    row(
        rank_updates.symmetric_product,
        symmetric_reference,
        (),
        unit,
        "symmetric_product",
        args=(Arg((2, 3, 2)), Arg((2, 3, 3))),
        params={"alpha": 0.5, "beta": 2.0, "symmetrize_output": True},
    ),
    row(polar_factors, polar_reference, (3, 3), spread, "qdwh", vmap_limit=2, order=1),
    row(polar_factors, polar_reference, (4, 2), spread, "qdwh of a tall matrix", order=1),
]
