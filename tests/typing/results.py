"""What type checkers make of results that depend on flags and on functions; see `arrays.py`."""

from typing import Any, NamedTuple, reveal_type

import numpy as np

import weft
import weft.numpy as wnp
from weft import lax, random
from weft.scipy import interpolate, linalg, sparse, special, stats
from weft.scipy.spatial.transform import Rotation
from weft.typing import Array

x = wnp.ones(3)
untyped: Any = x


class State(NamedTuple):
    position: Array
    speed: Array


def step(c: Array) -> Array:
    return 2 * c


def step_of_two(c: tuple[Array, Array]) -> tuple[Array, Array]:
    return c


def move(state: State, force: Array) -> tuple[State, Array]:
    return state, force


def move_named(
    c: dict[str, Array], x: tuple[Array, Array]
) -> tuple[dict[str, Array], tuple[Array, Array]]:
    return c, x


def changes_its_carry(c: tuple[Array, Array], x: Array) -> tuple[Array, Array]:
    return x, x


# ---- control flow: functions say what is carried, and numbers become arrays --------------------

reveal_type(lax.scan(move, State(x, x), x)[0].speed)  # T: Array
reveal_type(lax.scan(move, State(x, x), x)[1])  # T: Array
reveal_type(lax.scan(move_named, {"a": x}, (x, np.ones(3)))[1])  # T: tuple[Array, Array]
reveal_type(lax.scan(lambda c, x: ((c[0] + x, x), c), (0.0, x), x)[0])  # T: tuple[Any, Any]
lax.scan(changes_its_carry, (x, x), x)  # E: misc, reportCallIssue reportArgumentType
lax.scan(move, State(x, x), x, size=3)  # E: call-overload, reportCallIssue
reveal_type(lax.while_loop(lambda c: c < 3, step, 1))  # T: Array
reveal_type(lax.while_loop(lambda c: c < 3, lambda c: 2 * c, 1))  # T: Any, Array
reveal_type(lax.while_loop(lambda c: c[0] < 3, step_of_two, (1, x)))  # T: tuple[Array, Array]
lax.while_loop(step, move, x)  # E: arg-type, reportCallIssue reportArgumentType
reveal_type(lax.fori_loop(0, 3, lambda i, c: c + i, 1.0))  # T: Any, Array
reveal_type(lax.fori_loop(0, x[0], lambda i, c: step_of_two(c), (x, x)))  # T: tuple[Array, Array]
reveal_type(lax.cond(x, step, wnp.cos, x))  # T: Array
reveal_type(lax.cond(x, step_of_two, step_of_two, (x, x)))  # T: tuple[Array, Array]
reveal_type(lax.cond(x, lambda: x, lambda: None))  # T: Array | None
reveal_type(lax.cond(x, lambda: untyped, lambda: untyped))  # T: Any
reveal_type(lax.cond(x, 1, step, 2, step))  # T: Array
reveal_type(lax.switch(1, [wnp.sin, wnp.cos], x))  # T: Array
reveal_type(lax.switch(1, [wnp.sin, step], x))  # T: Any, Array
reveal_type(lax.map(step_of_two, (x, x)))  # T: tuple[Array, Array]
reveal_type(lax.associative_scan(wnp.add, x))  # T: Array
reveal_type(lax.associative_scan(lambda a, b: (a[0], b[1]), (x, x)))  # T: tuple[Array, Array]
reveal_type(lax.custom_root(step, x, lambda f, x: step(x), lambda g, y: y))  # T: Array

reveal_type(lax.custom_linear_solve(step, x, lambda f, b: b, symmetric=True))  # T: Array
reveal_type(lax.custom_linear_solve(step_of_two, (x, x), lambda f, b: b))  # T: tuple[Array, Array]
reveal_type(lax.custom_linear_solve(step, x, lambda f, b: (b, 1), has_aux=True))  # T: Any
reveal_type(lax.reduce(x, 0.0, lax.add, (0,)))  # T: Array
reveal_type(lax.reduce((x, x), (0.0, 0.0), lambda a, b: a, (0,)))  # T: tuple[Array, Array]
reveal_type(lax.reduce_window(x, 0.0, lax.add, (2,)))  # T: Array

# ---- trees of arrays keep their type -----------------------------------------------------------

reveal_type(lax.psum(1, "i"))  # T: int
reveal_type(lax.psum(State(x, x), "i").speed)  # T: Array
reveal_type(lax.pmean({"a": x}, "i"))  # T: dict[str, Array]
reveal_type(lax.pmax(x, "i"))  # T: Array
reveal_type(lax.all_gather(x, "i"))  # T: Array
reveal_type(lax.ppermute((x, x), "i", [(0, 1)]))  # T: tuple[Array, Array]
reveal_type(lax.all_to_all(x, "i", 0, 0))  # T: Array
reveal_type(lax.stop_gradient({"a": x}))  # T: dict[str, Array]
reveal_type(lax.with_sharding_constraint(x, weft.P("i")))  # T: Array
reveal_type(weft.checkpoint_name(x, "name"))  # T: Array
reveal_type(weft.device_put(np.ones(3)))  # T: Array
reveal_type(weft.device_put({"a": x}, weft.devices()[0]))  # T: dict[str, Array]
reveal_type(weft.device_get(x).tobytes())  # T: bytes

# ---- flags -------------------------------------------------------------------------------------

reveal_type(wnp.unique(x))  # T: Array
reveal_type(wnp.unique(x, return_counts=True))  # T: tuple[Array, Array]
reveal_type(wnp.unique(x, return_index=True, return_counts=True))  # T: tuple[Array, Array, Array]
reveal_type(wnp.unique(x, True))  # T: Any
reveal_type(wnp.intersect1d(x, x))  # T: Array
reveal_type(wnp.intersect1d(x, x, return_indices=True))  # T: tuple[Array, Array, Array]
reveal_type(wnp.average(x))  # T: Array
reveal_type(wnp.average(x, weights=x, returned=True))  # T: tuple[Array, Array]
reveal_type(wnp.linspace(0, 1, 5))  # T: Array
reveal_type(wnp.linspace(0, 1, 5, retstep=True))  # T: tuple[Array, Array]
reveal_type(wnp.gradient(x, axis=0))  # T: Array
reveal_type(wnp.polyfit(x, x, 1, w=x))  # T: Array
reveal_type(wnp.atleast_2d(x))  # T: Array
reveal_type(wnp.atleast_2d(x, x))  # T: list[Array]
reveal_type(wnp.linalg.svd(x).S)  # T: Array
reveal_type(wnp.linalg.svd(x, compute_uv=False))  # T: Array
reveal_type(wnp.linalg.qr(x).R)  # T: Array
reveal_type(wnp.linalg.qr(x, mode="r"))  # T: Array
reveal_type(wnp.linalg.eigh(x).eigenvalues)  # T: Array
reveal_type(wnp.linalg.lstsq(x, x)[2])  # T: Array
reveal_type(wnp.linalg.norm(x))  # T: Array
reveal_type(wnp.fft.rfft(x))  # T: Array
reveal_type(wnp.unique_all(x).inverse_indices)  # T: Array
reveal_type(lax.sort(x))  # T: Array
reveal_type(lax.sort((x, x), num_keys=2))  # T: tuple[Array, ...]
reveal_type(lax.linalg.svd(x))  # T: tuple[Array, Array, Array]
reveal_type(lax.linalg.eigh(x))  # T: tuple[Array, Array]
reveal_type(linalg.eigh(x, eigvals_only=True))  # T: Array
reveal_type(linalg.lu(x))  # T: tuple[Array, Array, Array]
reveal_type(linalg.lu(x, permute_l=True))  # T: tuple[Array, Array]
reveal_type(linalg.solve(x, x))  # T: Array
reveal_type(special.gammaln(x))  # T: Array
reveal_type(special.sici(x))  # T: tuple[Array, Array]
reveal_type(special.logsumexp(x, return_sign=True))  # T: tuple[Array, Array]
reveal_type(stats.norm.logpdf(x, scale=2.0))  # T: Array
reveal_type(sparse.linalg.cg(step, x))  # T: tuple[Array, None]
reveal_type(sparse.linalg.gmres(wnp.eye(3), np.ones(3), restart=3)[0])  # T: Array
reveal_type(sparse.linalg.cg(lambda t: t, {"a": x})[0])  # T: dict[str, Array]
reveal_type(sparse.linalg.bicgstab(lambda s: s, State(x, x))[0].speed)  # T: Array
reveal_type(stats.gaussian_kde(x)(x))  # T: Array
reveal_type(Rotation.from_quat(wnp.ones(4)).as_matrix())  # T: Array
reveal_type(interpolate.RegularGridInterpolator((x,), x)(x))  # T: Array
reveal_type(wnp.can_cast("int8", "int16"))  # T: bool
reveal_type(wnp.isdtype(x.dtype, "integral"))  # T: bool
reveal_type(wnp.iinfo("int8").max)  # T: int
reveal_type(wnp.result_type(x, 1.0))  # T: dtype[Any]
reveal_type(wnp.promote_types("int8", "int16"))  # T: dtype[Any]
reveal_type(wnp.fromfunction(wnp.add, (2, 2)))  # T: Array
reveal_type(wnp.einsum_path("ij,jk", x, x)[1])  # T: str
sparse.linalg.cg(step, x, tolerance=1e-3)  # E: call-overload, reportCallIssue
wnp.unique(x, return_count=True)  # E: call-overload, reportCallIssue
wnp.average(x, weight=x)  # E: call-overload, reportCallIssue
stats.norm.logpdf(x, deviation=2.0)  # E: call-arg, reportCallIssue

# ---- weft.random -------------------------------------------------------------------------------

key = random.key(0)
reveal_type(key)  # T: Array
reveal_type(random.split(key, 3))  # T: Array
reveal_type(random.fold_in(key, 1))  # T: Array
reveal_type(random.normal(key, (2,)))  # T: Array
reveal_type(random.uniform(key))  # T: Array
reveal_type(random.randint(key, (2,), 0, 9))  # T: Array
reveal_type(random.categorical(key, x))  # T: Array
reveal_type(random.permutation(key, 9))  # T: Array
reveal_type(random.choice(key, x))  # T: Array
reveal_type(random.key_impl(key))  # T: str
random.normal(key, size=3)  # E: call-arg, reportCallIssue
