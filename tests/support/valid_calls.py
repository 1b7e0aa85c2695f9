"""One valid call of every public function of arrays, as data: what sweeps over the whole library
begin with, before they replace one argument after the other.

`lists` names the arguments that take lists by their definition.
"""

from __future__ import annotations

import dataclasses
import importlib
import inspect
from collections.abc import Callable
from typing import Any

import numpy as np

import weft.numpy as jnp
from weft import random

__all__ = ["MODULES", "NO_ARRAYS", "Valid", "functions", "valid_calls"]


@dataclasses.dataclass(frozen=True)
class Valid:
    """A call that works: positional arguments and keywords of the function of that name.

    A method is named by its class, and takes its object first.
    """

    module: str
    name: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    lists: frozenset[str] = frozenset()

    @property
    def function(self) -> Callable[..., Any]:
        found: Any = importlib.import_module(self.module)
        for part in self.name.split("."):
            found = getattr(found, part)
        return found

    @property
    def signature(self) -> inspect.Signature:
        return inspect.signature(self.function)

    def names(self) -> list[str]:
        """The parameter that each positional argument is for."""
        names = [p.name for p in self.signature.parameters.values() if p.kind != p.KEYWORD_ONLY]
        return [*names, *names[-1:] * len(self.args)][: len(self.args)]


V = np.array([0.1, 0.4, 0.3, 0.7], np.float32)
M = np.array([[0.1, 0.4, 0.3], [0.7, 0.2, 0.6]], np.float32)
S = np.array([[2, 0.5, 0.1], [0.5, 3, 0.2], [0.1, 0.2, 1]], np.float32)
T = np.linspace(0, 1, 24, dtype=np.float32).reshape(2, 3, 4)
R3 = np.array([0.3, 0.2, 0.5], np.float32)
N4 = np.array([0, 1, 1, 3], np.int32)
IM = np.array([[0, 1], [1, 0]], np.int32)
B = np.array([True, False, True, True])
BM = np.array([[True, False, True], [False, True, True]])
U = np.array([1, 2, 255, 0], np.uint8)
KEY = random.key(0)
Q = np.linspace(-1, 1, 16, dtype=np.float32).reshape(1, 2, 2, 4)

MODULES = (
    "weft.numpy",
    "weft.numpy.linalg",
    "weft.numpy.fft",
    "weft.nn",
    "weft.ops",
    "weft.image",
    "weft.random",
)

# What is asked of types, shapes, files and texts: no argument of these is an array.
NO_ARRAYS = {
    "weft.numpy": (
        "__array_namespace_info__ broadcast_shapes can_cast finfo iinfo isdtype issubdtype "
        "promote_types get_printoptions set_printoptions printoptions iscomplexobj isrealobj "
        "isscalar iterable array_repr array_str result_type frompyfunc vectorize fromstring "
        "fromfile frombuffer fromiter from_dlpack load save savez savez_compressed einsum_path "
        "array asarray copy array_equal array_equiv ndim shape size common_type min_scalar_type "
        "array2string ndindex ndenumerate real_if_close"
    ).split(),
    "weft.random": "key_dtype random_gamma_p".split(),
    "weft.image": "",
}


def functions(module: str) -> dict[str, Any]:
    """The public functions of a module by name: what is callable and no class and no dtype."""
    namespace = importlib.import_module(module)
    found = {}
    for name in namespace.__all__:
        value = getattr(namespace, name)
        kind = type(value).__name__
        scalar = hasattr(value, "dtype")  # a name of a dtype can be called, too
        if callable(value) and not isinstance(value, type) and not (kind[0] == "_" or scalar):
            found[name] = value
    return found


def _ufunc_call(name: str, ufunc: Any) -> Valid:
    for operand in (V, N4, B):
        args = (operand,) * ufunc.nin if name != "ldexp" else (V, N4)
        try:
            ufunc(*args)
        except TypeError:
            continue
        return Valid("weft.numpy", name, args, {})
    raise AssertionError(f"no operands for {name}")


def _calls(module: str, *, lists: str = "", **calls: Any) -> Any:
    """Calls by name: the arguments, with a dictionary at the end as the keywords.

    lists: `name:argument,argument` of functions that take lists.
    """
    taken = dict(item.split(":") for item in lists.split())
    for key, value in calls.items():
        args = value if isinstance(value, tuple) else (value,)
        keywords = args[-1] if args and isinstance(args[-1], dict) else {}
        names = frozenset(taken.get(key, "").split(","))
        args = args[:-1] if keywords else args
        yield Valid(module, key, args, keywords, names)


def _reductions() -> Any:
    names = (
        "all any amax amin max min mean sum prod std var nanmax nanmin nanmean nansum nanprod "
        "nanstd nanvar ptp median nanmedian count_nonzero average argmax argmin nanargmax "
        "nanargmin cumsum cumprod nancumsum nancumprod argsort sort flip roll squeeze"
    ).split()
    args = {"roll": (M, 1), "squeeze": (M[None],)}
    return _calls("weft.numpy", **{n: args.get(n, (M,)) for n in names})


def _numpy() -> Any:
    yield from _reductions()
    yield from _calls(
        "weft.numpy",
        allclose=(V, V), angle=V, append=(V, V), apply_along_axis=(jnp.sum, 0, M),
        apply_over_axes=(jnp.sum, M, 0), arange=(4,), argpartition=(V, 2), argwhere=V,
        around=V, array_split=(V, 2), astype=(V, np.float32), atleast_1d=V, atleast_2d=V,
        atleast_3d=V, bartlett=4, bincount=N4, blackman=4, block=([V, V],),
        broadcast_arrays=(V, V), broadcast_to=(V, (2, 4)), choose=(IM[0], [IM[0], IM[1]]),
        clip=(V, 0.1, 0.5), column_stack=((V, V),), compress=(B, V), concat=((V, V),),
        concatenate=((V, V),), convolve=(V, V), corrcoef=M, correlate=(V, V), cov=M,
        cross=(M, M), cumulative_prod=V, cumulative_sum=V, delete=(V, 1), diag=V,
        diag_indices=3, diag_indices_from=S, diagflat=V, diagonal=M, diff=V,
        digitize=(V, np.sort(V)), dot=(S, S), dsplit=(T, 2), dstack=((V, V),), ediff1d=V,
        einsum=("ij,jk", M, S), empty=3, empty_like=V, expand_dims=(V, 0), extract=(B, V),
        eye=3, fill_diagonal=(S, 1.0, {"inplace": False}), flatnonzero=V, fliplr=M, flipud=M,
        fromfunction=(jnp.add, (2, 2)), full=(3, 1.0), full_like=(V, 1.0),
        geomspace=(1.0, 10.0), gradient=V, hamming=4, hanning=4, histogram=V,
        histogram2d=(V, V), histogram_bin_edges=V, histogramdd=M, hsplit=(V, 2),
        hstack=((V, V),), i0=V, identity=3, imag=V, indices=((2, 3),), inner=(V, V),
        insert=(V, 1, 0.5), interp=(V, V, V), intersect1d=(N4, N4), isclose=(V, V),
        iscomplex=V, isin=(V, V), isneginf=V, isposinf=V, isreal=V, ix_=(N4, N4), kaiser=(4, 2.0),
        kron=(V, V), lexsort=((V, V),), linspace=(0.0, 1.0), logspace=(0.0, 1.0),
        mask_indices=(3, jnp.triu), matmul=(M, S), matrix_transpose=M, matvec=(M, R3),
        meshgrid=(V, V), moveaxis=(M, 0, 1), nan_to_num=V, nanpercentile=(M, 50.0),
        nanquantile=(M, 0.5), nonzero=V, ones=3, ones_like=V, outer=(V, V), packbits=U,
        pad=(V, 1), partition=(V, 2), percentile=(M, 50.0), permute_dims=(M, (1, 0)),
        piecewise=(V, [V < 0.2], [0.0, 1.0]), place=(V, B, V, {"inplace": False}), poly=V,
        polyadd=(V, V), polyder=V, polydiv=(V, V), polyfit=(V, V, 1), polyint=V, polymul=(V, V),
        polysub=(V, V), polyval=(V, V), put=(V, N4, V, {"inplace": False}),
        put_along_axis=(V, N4, V, 0, {"inplace": False}), quantile=(M, 0.5), ravel=M,
        ravel_multi_index=((IM[0], IM[1]), (2, 2)), real=V, repeat=(V, 2), reshape=(M, (3, 2)),
        resize=(M, (2, 2)), rollaxis=(M, 1), roots=V, rot90=M, round=V,
        searchsorted=(np.sort(V), V), select=([B], [V]), setdiff1d=(N4, N4), setxor1d=(N4, N4),
        sinc=V, sort_complex=V, split=(V, 2), stack=((V, V),), swapaxes=(M, 0, 1),
        take=(V, N4), take_along_axis=(V, N4), tensordot=(M, S, 1), tile=(V, 2), trace=M,
        transpose=M, trapezoid=V, tri=3, tril=M, tril_indices=3, tril_indices_from=S,
        trim_zeros=V, triu=M, triu_indices=3, triu_indices_from=S, union1d=(N4, N4), unique=N4,
        unique_all=N4, unique_counts=N4, unique_inverse=N4, unique_values=N4, unpackbits=U,
        unravel_index=(N4, (2, 2)), unstack=M, unwrap=V, vander=V, vdot=(V, V), vecdot=(V, V),
        vecmat=(R3, S), vsplit=(M, 2), vstack=((V, V),), where=(B, V, V), zeros=3, zeros_like=V,
        ascontiguousarray=V,
        lists="poly:seq_of_zeros polyadd:a1,a2 polyder:p polydiv:u,v polyfit:x,y polyint:p "
        "polymul:a1,a2 polysub:a1,a2 polyval:p,x roots:p trim_zeros:filt vander:x packbits:a "
        "unpackbits:a compress:condition extract:condition apply_along_axis:arr apply_over_axes:a "
        "ascontiguousarray:a ix_:args",
    )  # fmt: skip
    names = functions("weft.numpy")
    for name, value in names.items():
        if isinstance(value, jnp.ufunc):
            yield _ufunc_call(name, value)


def _linalg() -> Any:
    return _calls(
        "weft.numpy.linalg",
        cholesky=S, cond=S, cross=(M, M), det=S, diagonal=S, eig=S, eigh=S, eigvals=S, eigvalsh=S,
        inv=S, lstsq=(S, R3), matmul=(M, S), matrix_norm=S, matrix_power=(S, 2), matrix_rank=S,
        matrix_transpose=M, multi_dot=([M, S, S],), norm=M, outer=(V, V), pinv=S, qr=S, slogdet=S,
        solve=(S, R3), svd=S, svdvals=S, tensordot=(M, S, 1),
        tensorinv=(np.eye(4, dtype=np.float32).reshape(2, 2, 2, 2),), tensorsolve=(S, R3), trace=S,
        vecdot=(V, V), vector_norm=V,
    )  # fmt: skip


def _fft() -> Any:
    names = "fft fft2 fftn fftshift hfft ifft ifft2 ifftn ifftshift ihfft irfft irfft2 irfftn rfft"
    names += " rfft2 rfftn"
    calls = dict.fromkeys(names.split(), (M,))
    return _calls("weft.numpy.fft", fftfreq=4, rfftfreq=4, **calls)


def _networks() -> Any:
    names = "celu elu gelu hard_sigmoid hard_silu hard_swish hard_tanh identity leaky_relu log1mexp"
    names += " log_sigmoid log_softmax logmeanexp logsumexp mish relu relu6 selu sigmoid silu"
    names += " soft_sign softmax softplus sparse_plus sparse_sigmoid squareplus standardize swish"
    calls = dict.fromkeys([*names.split(), "tanh"], (M,))
    yield from _calls(
        "weft.nn",
        dot_product_attention=(Q, Q, Q), glu=T, one_hot=(N4, 4),
        lists="one_hot:x",
        # Over no axes they are products.
        gathered_product=("ij,jk->ik", M, M.T, (), {"gathered": "i"}),
        scattered_product=("ij,jk->ik", M, M.T, (), {"scattered": "i"}),
        scaled_matmul=(Q[0], Q[0], Q[0][..., :2], Q[0][..., :2]), **calls,
    )  # fmt: skip
    segments = {f"segment_{kind}": (V, N4) for kind in ("max", "min", "prod", "sum")}
    yield from _calls("weft.ops", **segments)
    yield from _calls(
        "weft.image",
        resize=(M, (4, 6), "linear"),
        scale_and_translate=(M, (4, 6), (0, 1), V[:2], V[:2], "linear"),
    )


def _random() -> Any:
    names = "bits cauchy exponential gumbel laplace logistic maxwell normal rademacher uniform"
    names += " bernoulli lognormal split clone key_data key_impl"
    calls = dict.fromkeys(names.split(), (KEY,))
    data = np.zeros(2, np.uint32)
    return _calls(
        "weft.random",
        PRNGKey=0, key=0, ball=(KEY, 2), beta=(KEY, V, V), binomial=(KEY, N4, V),
        categorical=(KEY, V), chisquare=(KEY, V), choice=(KEY, V), dirichlet=(KEY, V),
        double_sided_maxwell=(KEY, V, V), f=(KEY, V, V), fold_in=(KEY, 1), gamma=(KEY, V),
        generalized_normal=(KEY, 2.0), geometric=(KEY, V), loggamma=(KEY, V),
        multinomial=(KEY, 3, R3), multivariate_normal=(KEY, R3, S), orthogonal=(KEY, 2),
        pareto=(KEY, V), permutation=(KEY, V), poisson=(KEY, V), randint=(KEY, (3,), 0, 5),
        rayleigh=(KEY, V), t=(KEY, V), triangular=(KEY, 0.0, 0.5, 1.0),
        truncated_normal=(KEY, -1.0, 1.0), wald=(KEY, V), weibull_min=(KEY, 1.0, 2.0),
        wrap_key_data=(data,), **calls,
    )  # fmt: skip


def valid_calls() -> list[Valid]:
    """The whole table."""
    return [*_numpy(), *_linalg(), *_fft(), *_networks(), *_random()]
