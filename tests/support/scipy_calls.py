"""One valid call of every public function of `weft.scipy`, `weft.lax.linalg` and the initializers,
as `valid_calls.py` has them for arrays."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np

import weft.numpy as jnp
from valid_calls import IM, KEY, N4, R3, M, S, V, Valid, _calls
from weft.scipy.interpolate import RegularGridInterpolator
from weft.scipy.spatial.transform import Rotation, Slerp
from weft.scipy.stats import gaussian_kde

__all__ = ["SCIPY_MODULES", "SCIPY_NO_ARRAYS", "scipy_calls"]

DISTRIBUTIONS = (
    "bernoulli beta betabinom binom cauchy chi2 dirichlet expon gamma gennorm geom gumbel_l "
    "gumbel_r laplace logistic multinomial multivariate_normal nbinom norm pareto poisson t "
    "truncnorm uniform vonmises wrapcauchy"
).split()

SCIPY_MODULES = (
    "weft.scipy.special",
    "weft.scipy.linalg",
    "weft.scipy.stats",
    *(f"weft.scipy.stats.{name}" for name in DISTRIBUTIONS),
    "weft.scipy.signal",
    "weft.scipy.ndimage",
    "weft.scipy.optimize",
    "weft.scipy.sparse.linalg",
    "weft.scipy.integrate",
    "weft.scipy.interpolate",
    "weft.scipy.fft",
    "weft.scipy.cluster.vq",
    "weft.scipy.spatial.transform",
    "weft.lax.linalg",
    "weft.nn.initializers",
)

# Classes, and what takes arrays only in objects of its own.
SCIPY_NO_ARRAYS: dict[str, tuple[str, ...]] = {
    "weft.scipy.stats": tuple(DISTRIBUTIONS),
    "weft.scipy.optimize": ("OptimizeResults",),
}

C2 = np.array([[2, 0.5], [0.5, 3]], np.float32)
BANDS = np.array([0, 0.5, 0.5], np.float32)
WAVE = np.sin(np.arange(32, dtype=np.float32))
G = np.arange(12, dtype=np.float32).reshape(3, 4)
M4 = np.array([[0.1, 0.4, 0.3, 0.2], [0.7, 0.2, 0.6, 0.1]], np.float32)


def _special() -> Any:
    names = (
        "dawsn digamma entr erf erfc erfcx erfinv exp1 expi expit fresnel gamma gammaln gammasgn "
        "i0 i0e i1 i1e log_ndtr log_softmax loggamma logit logsumexp ndtr ndtri sici softmax "
        "spence wofz factorial"
    ).split()
    pairs = (
        "beta betaln boxcox boxcox1p gammainc gammaincc kl_div owens_t poch rel_entr xlog1py xlogy "
        "comb"
    ).split()
    return _calls(
        "weft.scipy.special",
        bernoulli=3, bessel_jn=(V, {"v": 2}), betainc=(V, V, V), expn=(N4, V),
        hyp1f1=(V, V, V), hyp2f1=(V, V, V, V), multigammaln=(V + 2, 2), polygamma=(N4, V),
        sph_harm_y=(N4, N4, V, V, {"n_max": 3}), zeta=(V + 2, V),
        **dict.fromkeys(names, (V,)), **dict.fromkeys(pairs, (V, V)),
    )  # fmt: skip


def _linalg() -> Any:
    yield from _calls(
        "weft.scipy.linalg",
        block_diag=(S, M), cho_factor=S, cho_solve=((S, False), R3), cholesky=S, circulant=R3,
        companion=R3, convolution_matrix=(R3, 4), det=S, dft=3, eigh=S,
        eigh_tridiagonal=(R3, R3[:2], {"eigvals_only": True}), expm=S, expm_frechet=(S, S),
        fiedler=R3, fiedler_companion=R3, funm=(S, jnp.exp), hadamard=4, hankel=R3, helmert=3,
        hessenberg=S, hilbert=3, inv=S, invhilbert=3, invpascal=3, leslie=(R3, R3[:2]), lu=S,
        lu_factor=S, lu_solve=((S, IM[0][[0, 1, 1]]), R3), pascal=3, polar=S, qr=S,
        qr_multiply=(S, R3), rsf2csf=(S, S), schur=S, solve=(S, R3), solve_sylvester=(S, S, S),
        solve_triangular=(S, R3), sqrtm=S, svd=S, toeplitz=R3,
        lists="block_diag:arrs toeplitz:c hankel:c",
    )  # fmt: skip
    yield from _calls(
        "weft.lax.linalg",
        cholesky=S, cholesky_update=(S, R3), eig=S, eigh=S, hessenberg=S,
        householder_product=(S, R3), lu=S, lu_pivots_to_permutation=(IM[0][[0, 1, 1]], 3),
        ormqr=(S, R3, S), qdwh=S, qr=S, schur=S, svd=S, symmetric_product=(S, S),
        triangular_solve=(S, S), tridiagonal=S, tridiagonal_solve=(BANDS, R3, BANDS[::-1], S),
    )  # fmt: skip


def _distributions() -> Any:
    """Each function of each distribution, at valid values of its parameters."""
    values = {
        "x": V, "k": N4, "q": V, "p": 0.5, "n": 3, "a": 1.5, "b": 2.5, "df": 3.0, "beta": 1.5,
        "mu": 2.0, "kappa": 1.5, "c": 0.5,
    }  # fmt: skip
    several: dict[str, tuple[Any, ...]] = {
        "dirichlet": (R3, R3),
        "multinomial": (N4[:3], 5, R3),
        "multivariate_normal": (R3, R3, S),
    }
    for name in DISTRIBUTIONS:
        module = f"weft.scipy.stats.{name}"
        namespace = importlib.import_module(module)
        for method in namespace.__all__:
            call = Valid(module, method, (), {})
            args = several.get(name)
            if args is None:
                found = call.signature.parameters
                args = tuple(values[each] for each in found if each in values)
            yield Valid(module, method, args, {})


def _others() -> Any:
    yield from _calls("weft.scipy.stats", mode=M, rankdata=M, sem=M)
    yield from _calls(
        "weft.scipy.signal",
        convolve=(V, V), convolve2d=(M, M), correlate=(V, V), correlate2d=(M, M),
        csd=(WAVE, WAVE, {"nperseg": 16}), detrend=M, fftconvolve=(V, V),
        istft=(np.ones((9, 5), np.complex64), {"nperseg": 16}), stft=(WAVE, {"nperseg": 16}),
        welch=(WAVE, {"nperseg": 16}),
    )  # fmt: skip
    yield from _calls("weft.scipy.ndimage", map_coordinates=(M, [V, V], 1))
    yield from _calls(
        "weft.scipy.optimize", minimize=(lambda x: jnp.sum(x * x), V, {"method": "BFGS"})
    )
    yield from _calls("weft.scipy.sparse.linalg", bicgstab=(S, R3), cg=(S, R3), gmres=(S, R3))
    yield from _calls("weft.scipy.integrate", trapezoid=V)
    yield from _calls("weft.scipy.fft", dct=M, dctn=M, idct=M, idctn=M)
    yield from _calls("weft.scipy.cluster.vq", vq=(M, M))


def _initializers() -> Any:
    """What makes initializers; those that it makes are called in `test_initializers.py`."""
    names = "glorot_normal glorot_uniform he_normal he_uniform kaiming_normal kaiming_uniform "
    names += "lecun_normal lecun_uniform xavier_normal xavier_uniform normal uniform "
    names += "truncated_normal orthogonal delta_orthogonal"
    yield from _calls(
        "weft.nn.initializers",
        constant=2.0, variance_scaling=(1.0, "fan_in", "normal"),
        zeros=(None, (2, 3)), ones=(None, (2, 3)), **dict.fromkeys(names.split(), ()),
    )  # fmt: skip


def _objects() -> Any:
    """Constructors and methods of classes."""
    grid, estimate = RegularGridInterpolator((R3.cumsum(), V.cumsum()), G), gaussian_kde(M)
    yield Valid("weft.scipy.stats", "gaussian_kde", (V,), {})
    for method, *args in (
        ("evaluate", M), ("logpdf", M), ("pdf", M), ("resample", KEY),
        ("integrate_gaussian", R3[:2], C2), ("integrate_kde", estimate),
    ):  # fmt: skip
        yield Valid("weft.scipy.stats", f"gaussian_kde.{method}", (estimate, *args), {})
    args = (gaussian_kde(V), 0.1, 0.5)
    yield Valid("weft.scipy.stats", "gaussian_kde.integrate_box_1d", args, {})
    module = "weft.scipy.interpolate"
    yield Valid(module, "RegularGridInterpolator", ((R3.cumsum(), V.cumsum()), G), {})
    yield Valid(module, "RegularGridInterpolator.__call__", (grid, M[:, :2]), {})
    module, turns = "weft.scipy.spatial.transform", Rotation.from_rotvec(S)
    for form, args in {
        "quat": (M4,), "rotvec": (M,), "mrp": (M,), "matrix": (np.eye(3, dtype=np.float32),),
        "euler": ("xyz", M),
    }.items():  # fmt: skip
        yield Valid(module, f"Rotation.from_{form}", args, {})
        args = (turns, "xyz") if form == "euler" else (turns,)
        yield Valid(module, f"Rotation.as_{form}", args, {})
    yield Valid(module, "Rotation.identity", (2,), {})
    yield Valid(module, "Rotation.random", (KEY, 2), {})
    yield Valid(module, "Rotation.concatenate", ([turns, turns],), {})
    for method, *args in (
        ("apply", S), ("inv",), ("magnitude",), ("mean", R3), ("__mul__", turns),
        ("__getitem__", 0),
    ):  # fmt: skip
        yield Valid(module, f"Rotation.{method}", (turns, *args), {})
    yield Valid(module, "Slerp.init", (R3.cumsum(), turns), {}, frozenset({"times"}))
    slerp = Slerp.init(R3.cumsum(), turns)
    yield Valid(module, "Slerp.__call__", (slerp, V), {}, frozenset({"times"}))


def scipy_calls() -> list[Valid]:
    """The whole table."""
    return [*_special(), *_linalg(), *_distributions(), *_others(), *_initializers(), *_objects()]
