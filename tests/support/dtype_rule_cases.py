"""Small calls that name 64-bit dtypes, and what they give: dtypes, warnings or errors.

`python tests/support/dtype_rule_cases.py jax` prints what the module of that name answers, as
`tests/data/dtype_rule.json` holds it (recorded with JAX 0.10.2).
"""

from __future__ import annotations

import builtins
import importlib
import json
import sys
import warnings
from typing import Any

import numpy as np

# Calls with a dtype `D` (a NumPy dtype); `N` is its name, `C` NumPy's class, `S` the scalar type
# of the same name in jax.numpy; `v` is a NumPy array of that dtype and `s` a scalar of it.
FOR_ALL = """
jnp.zeros(3, D)
jnp.zeros(3, N)
jnp.zeros(3, C)
jnp.zeros(3, S)
jnp.ones((2,), dtype=C)
jnp.empty(2, C)
jnp.full(3, 1, C)
jnp.full((3,), v[0])
jnp.zeros_like(f, dtype=C)
jnp.ones_like(f, dtype=C)
jnp.full_like(f, 2, dtype=C)
jnp.empty_like(f, dtype=C)
jnp.zeros_like(v)
jnp.ones_like(v)
jnp.full_like(v, 1)
jnp.full_like(v, 1, dtype=D)
jnp.array(v)
jnp.array(s)
jnp.array([s, s])
jnp.array([1, 0], dtype=C)
jnp.array(v, dtype=C)
jnp.array(f, dtype=C)
jnp.array(1, dtype=S)
jnp.asarray(v)
jnp.asarray(s)
jnp.asarray(v, dtype=D)
jnp.asarray(f, dtype=D)
jnp.asarray([[1, 2]], D)
jnp.arange(3, dtype=C)
jnp.arange(v[1])
jnp.linspace(0, 1, 3, dtype=C)
jnp.logspace(0, 1, 3, dtype=C)
jnp.geomspace(1, 2, 3, dtype=C)
jnp.eye(2, dtype=C)
jnp.identity(2, dtype=C)
jnp.tri(2, dtype=C)
jnp.astype(f, C)
f.astype(C)
f.astype(N)
f.astype(D)
f.astype(S)
i.astype(C)
v + 1
jnp.add(v, 1)
jnp.add(s, 1)
f + v[:1]
f * s
i + s
jnp.sum(f, dtype=C)
jnp.sum(v)
jnp.prod(i, dtype=C)
jnp.mean(f, dtype=C)
jnp.mean(v)
jnp.var(f, dtype=C)
jnp.std(f, dtype=C)
jnp.cumsum(f, dtype=C)
jnp.cumprod(f, dtype=C)
jnp.trace(jnp.ones((2, 2)), dtype=C)
jnp.nansum(f, dtype=C)
jnp.nanmean(f, dtype=C)
jnp.concatenate([f, f], dtype=C)
jnp.stack([f, f], dtype=C)
jnp.hstack([f, f], dtype=C)
jnp.vstack([f, f], dtype=C)
jnp.concatenate([v, v])
jnp.where(v > 0, v, v)
jnp.where(f > 0, f, s)
jnp.dot(f, f, preferred_element_type=C)
jnp.matmul(f, f, preferred_element_type=C)
jnp.einsum('i,i', f, f, preferred_element_type=C)
jnp.tensordot(f, f, 1, preferred_element_type=C)
jnp.fromfunction(lambda i: i, (3,), dtype=C)
jnp.indices((2,), dtype=C)
jnp.frombuffer(b'01234567' * 4, dtype=C)
jnp.fromiter([1, 2], dtype=C)
jnp.asarray(np.ones(2, C)[::-1])
f.view(C)
S(1)
S([1, 2])
lax.convert_element_type(f, C)
lax.convert_element_type(1, D)
lax.convert_element_type(i, N)
lax.full((2,), 1, C)
lax.full((2,), s)
lax.full_like(f, 1, C)
lax.iota(C, 3)
lax.broadcasted_iota(D, (2, 2), 0)
lax.add(v, v)
lax.add(f, v)
lax.mul(f, s)
lax.dot(f, f, preferred_element_type=C)
lax.dot_general(f, f, (((0,), (0,)), ((), ())), preferred_element_type=C)
lax.argmax(f, 0, C)
lax.bitcast_convert_type(jnp.ones((2, 2), 'float32'), C)
lax.reduce(v, s, lax.add, (0,))
lax.select(v > 0, v, v)
lax.scan(lambda c, x: (c + x, c), s, v)
lax.scan(lambda c, x: (c, x), jnp.zeros((), C), jnp.ones(2, C))
lax.fori_loop(0, 2, lambda k, c: c, s)
lax.while_loop(lambda c: False, lambda c: c, v)
lax.cond(True, lambda x: x, lambda x: x, v)
random.uniform(key, (2,), C)
random.uniform(key, (2,), D)
random.normal(key, (2,), C)
random.randint(key, (2,), 0, 5, C)
random.bits(key, (2,), C)
random.gamma(key, 1.0, (2,), C)
random.exponential(key, (2,), C)
random.truncated_normal(key, -1.0, 1.0, (2,), C)
random.poisson(key, 1.0, (2,), C)
random.rademacher(key, (2,), C)
random.categorical(key, v)
random.choice(key, v)
random.permutation(key, v)
random.bernoulli(key, v)
random.uniform(key, (2,), minval=s)
random.key(s)
nn.one_hot(jnp.arange(2), 3, dtype=C)
nn.initializers.zeros(key, (2,), C)
nn.initializers.lecun_normal()(key, (2, 2), C)
nn.initializers.constant(1, C)(key, (2,))
J.ShapeDtypeStruct((2,), C)
J.ShapeDtypeStruct((2,), N)
J.eval_shape(lambda x: x, J.ShapeDtypeStruct((2,), C))
J.eval_shape(lambda x: x + 1, v)
J.eval_shape(lambda: jnp.zeros(2, C))
J.jit(lambda x: x)(v)
J.jit(lambda x: x + 1)(s)
J.jit(lambda: jnp.zeros(2, C))()
J.jit(lambda x: x.astype(C))(f)
J.vmap(lambda x: x)(v)
J.vmap(lambda x: x.astype(C))(f)
J.device_put(v)
J.device_put(s)
J.pure_callback(lambda x: np.asarray(x, C), J.ShapeDtypeStruct((2,), C), f)
J.pure_callback(lambda x: np.asarray(x, C), jnp.zeros(2, C), f)
J.pure_callback(lambda x: np.asarray(x, C), J.ShapeDtypeStruct((2,), 'float32'), f)
J.experimental.io_callback(lambda x: np.asarray(x, C), J.ShapeDtypeStruct((2,), C), f)
J.jit(lambda x: J.pure_callback(lambda x: np.asarray(x, C), J.ShapeDtypeStruct((2,), C), x))(f)
J.dtypes.canonicalize_dtype(C)
J.dtypes.canonicalize_dtype(N)
J.dtypes.result_type(C)
J.dtypes.result_type(v)
J.dtypes.scalar_type_of(v)
jnp.result_type(C)
jnp.result_type(D, 'int8')
jnp.result_type(v)
jnp.result_type(s, 1)
jnp.promote_types(C, 'int8')
jnp.promote_types(D, D)
jnp.can_cast(C, 'int32')
jnp.issubdtype(C, np.floating)
jnp.isdtype(C, D)
jnp.finfo(C).bits
jnp.iinfo(C).bits
jnp.dtype(C)
jnp.zeros(2, S).dtype == S
S.dtype
S == D
np.dtype(S)
jnp.float_
jnp.int_
fft.fft(v)
fft.fftfreq(3, dtype=C)
jnp.histogram(v, 2)
jnp.bincount(jnp.arange(2), weights=v)
jnp.searchsorted(v, v)
jnp.unique(v)
jnp.sort(v)
jnp.argsort(v)
jnp.take(v, 0)
jnp.array(v).at[0].set(s)
f.at[0].set(s)
f.at[0].add(1)
jnp.asarray(v).item()
jnp.asarray(v).tolist()
np.asarray(jnp.asarray(v)).dtype
jnp.asarray(v).view('int32')
jnp.asarray([1, 2], dtype=C).T
scipy.special.logsumexp(v)
linalg.norm(v)
J.numpy.linalg.inv(np.eye(2, dtype=C))
J.flatten_util.ravel_pytree([v, v])[0]
J.flatten_util.ravel_pytree([f, s])[0]
J.tree.map(jnp.asarray, [v, s])
""".strip().splitlines()

# Calls with integers at and beyond the edges.
INTEGERS = """
jnp.asarray(2**31 - 1)
jnp.asarray(2**31)
jnp.asarray(-2**31 - 1)
jnp.asarray(2**40)
jnp.asarray(2**64)
jnp.asarray(2**200)
jnp.asarray([2**40])
jnp.array([1, 2**40])
jnp.array(2**40, dtype='uint8')
jnp.array(300, dtype='uint8')
jnp.array(-1, dtype='uint8')
jnp.array(-1, dtype='uint32')
jnp.array([300], dtype='uint8')
jnp.array([-1], dtype='uint32')
jnp.array(2**32 - 1, dtype='uint32')
jnp.array(2**40, dtype='int64')
jnp.array(2**40, dtype='float32')
jnp.array(2**200, dtype='float32')
jnp.array(1e300)
jnp.array(np.float64(1e300))
jnp.array(np.array([2**40]))
jnp.array(np.int64(2**40))
jnp.array(np.uint64(2**63))
jnp.asarray(np.array([2**40, -2**40]))
jnp.asarray(np.array([2**40]), dtype='int32')
jnp.asarray(np.array([300]), dtype='uint8')
jnp.asarray(np.array([-1]), dtype='uint32')
jnp.asarray(np.array([3.7, -1.0]), dtype='uint8')
jnp.uint8(200) + 300
jnp.uint8(200) + 100
jnp.uint8(200) * -1
jnp.uint8(200) > 300
jnp.uint8(200) == 300
jnp.uint8(200) < -1
jnp.int8(100) + 2**40
jnp.int32(1) + 2**31
jnp.int32(1) * 2**40
jnp.float32(1) + 2**40
jnp.float32(1) + 2**200
i + np.int64(2**40)
jnp.add(i, 2**31)
jnp.add(i, 2**40)
jnp.where(i > 0, i, 2**40)
jnp.where(i > 0, 2**40, 1)
jnp.full(2, 2**40)
jnp.full(2, 2**40, 'int32')
jnp.full_like(i, 2**40)
jnp.full(2, 300, 'uint8')
jnp.full_like(jnp.zeros(2, 'uint8'), -1)
jnp.arange(2**40, 2**40 + 2)
jnp.arange(2**31, 2**31 + 2)
jnp.arange(2**31 - 2, 2**31 - 1)
jnp.clip(jnp.zeros(2, 'uint8'), 0, 300)
jnp.clip(i, 0, 2**40)
jnp.maximum(i, 2**40)
jnp.minimum(jnp.zeros(2, 'uint8'), -1)
i.at[0].set(2**40)
jnp.zeros(2, 'uint8').at[0].set(300)
jnp.zeros(2, 'uint8').at[0].add(-1)
jnp.zeros(2, 'int8').at[0].set(200)
i.at[0].set(1.5)
i & 0xFFFFFFFF
jnp.uint32(5) & 0xFFFFFFFF
jnp.uint32(5) & 0xFFFFFFFFF
jnp.uint32(5) << 40
jnp.uint32(5) ^ -1
J.jit(lambda x: x + 1)(2**40)
J.jit(lambda x: x + 1)(np.int64(2**40))
J.jit(lambda x: x + 1)(np.array([2**40]))
J.jit(lambda x: x + 2**40)(i)
J.jit(lambda x: x + 300)(jnp.uint8(1))
J.vmap(lambda x: x + 2**40)(i)
J.device_put(2**40)
J.device_put(np.array([2**40]))
lax.add(i, 2**40)
lax.add(jnp.zeros(2, 'uint8'), 300)
lax.full((2,), 2**40)
lax.full((2,), 300, 'uint8')
lax.convert_element_type(2**40, 'int32')
lax.convert_element_type(2**40, 'float32')
lax.convert_element_type(300, 'uint8')
lax.convert_element_type(-1, 'uint32')
lax.convert_element_type(np.int64(2**40), 'int32')
lax.fori_loop(0, 2**40, lambda k, c: c, 0) if False else 0
lax.cond(True, lambda x: x, lambda x: x, 2**40)
random.key(2**40)
random.key(-1)
random.key(2**64)
random.key(np.int64(2**40))
random.PRNGKey(2**40)
random.fold_in(key, 2**31)
random.fold_in(key, 2**32)
random.fold_in(key, -1)
random.fold_in(key, np.int64(2**40))
random.randint(key, (2,), 0, 2**31)
random.randint(key, (2,), 0, 2**32)
random.randint(key, (2,), 0, 2**40)
random.randint(key, (2,), 0, 300, 'uint8')
random.randint(key, (2,), -5, 5, 'uint8')
random.randint(key, (2,), 0, 256, 'uint8')
jnp.iinfo('int32').max + 1 + jnp.int32(0)
jnp.asarray(True) + 2**40
jnp.linspace(0, 2**40, 3)
jnp.power(i, 2**40)
i ** 2**33
jnp.right_shift(i, 2**40)
jnp.mod(i, 2**40)
jnp.isin(i, np.array([2**40]))
jnp.searchsorted(i, 2**40)
jnp.asarray([np.int64(2**40), 1])
jnp.result_type(2**40)
jnp.result_type(2**31, 'int8')
jnp.zeros(2**40 - 2**40)
lax.iota('int8', 200)
jnp.arange(200, dtype='int8')
jnp.arange(300, dtype='uint8')
jnp.arange(0, 2**40, 2**39)
jnp.arange(0.0, 2**40, 2**39)
""".strip().splitlines()

_BUILTIN = {c for c in vars(builtins).values() if isinstance(c, type)} - {
    object,
    BaseException,
    Exception,
    LookupError,
}
DTYPES = ("float64", "int64")


def _described(value: Any, tree: Any) -> Any:
    """Dtypes, weak types and values of what a call gives, as JSON can hold them."""

    def leaf(x: Any) -> Any:
        if isinstance(x, np.dtype):
            return f"dtype {x.name}"
        dtype = getattr(x, "dtype", None)
        if isinstance(x, type) or not hasattr(x, "shape"):
            name = getattr(x, "__name__", None)
            shown = f"type {name}" if name else repr(x)
            return shown if dtype is None else f"{name or ''} dtype {dtype}".strip()
        kind = "" if not getattr(x, "weak_type", False) else " weak"
        return f"{dtype}{kind} {list(x.shape)}"

    return [leaf(x) for x in tree.leaves(value)]


def _values(value: Any, tree: Any) -> Any:
    found = []
    for x in tree.leaves(value):
        try:
            array = np.asarray(x)
        except TypeError:
            continue
        if array.dtype.kind in "iufb" and array.size < 10:
            found.append(array.tolist())
    return found


def outcome(text: str, module: Any, x64: bool, name: str | None) -> dict[str, Any]:
    """What one call gives: `gives` and `values`, or the classes of its error, and `warns`."""
    jnp = importlib.import_module(f"{module.__name__}.numpy")
    parts = {
        "J": module,
        "jnp": jnp,
        "np": np,
        **{
            part: importlib.import_module(f"{module.__name__}.{part}")
            for part in ("lax", "random", "nn", "scipy.special", "experimental", "dtypes", "tree")
        },
        "fft": jnp.fft,
        "linalg": jnp.linalg,
        "scipy": importlib.import_module(f"{module.__name__}.scipy"),
    }
    importlib.import_module(f"{module.__name__}.flatten_util")
    with module.enable_x64(x64), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        parts["f"] = jnp.ones(2, "float32")
        parts["i"] = jnp.ones(2, "int32")
        parts["key"] = parts["random"].key(0)
        if name is not None:
            dtype = np.dtype(name)
            parts |= {"D": dtype, "N": name, "C": dtype.type, "S": getattr(jnp, name)}
            parts |= {"v": np.arange(1, 3).astype(dtype), "s": dtype.type(1)}
        del caught[:]
        try:
            value = eval(text, parts)
            found: dict[str, Any] = {"gives": _described(value, parts["tree"])}
            if name is None:
                found["values"] = _values(value, parts["tree"])
        except Exception as error:  # noqa: BLE001 (the outcome is what is asked for)
            found = {"raises": [c.__name__ for c in type(error).__mro__ if c in _BUILTIN]}
        warned = any("is not available" in str(w.message) for w in caught)
    if warned:
        found["warns"] = 1
    return found


def table(module: Any) -> dict[str, Any]:
    """The outcome of every call, by its text and the dtype, without 64-bit numbers; and with them
    for one dtype."""
    found = {}
    for text in FOR_ALL:
        for name in DTYPES:
            found[f"{text} | {name}"] = outcome(text, module, False, name)
        found[f"{text} | x64"] = outcome(text, module, True, DTYPES[0])
    for text in INTEGERS:
        found[text] = outcome(text, module, False, None)
    return found


if __name__ == "__main__":
    answers = table(importlib.import_module(sys.argv[1]))
    print(
        "{\n" + ",\n".join(f"{json.dumps(k)}: {json.dumps(v)}" for k, v in answers.items()) + "\n}"
    )
