"""Examples of weft's own primitives, for `check_primitive`.

Each row of the op table is recorded as a program, and the program evaluated equation by equation:
what a primitive is applied to on the way is an example of it. A primitive that no row applies has
an example in `GIVEN`, or a reason in `UNCHECKED`.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

import op_table
import weft
from weft import lax, random
from weft.core.jaxpr import Jaxpr
from weft.core.primitive import Primitive
from weft.core.types import type_of
from weft.custom_batching import custom_vmap
from weft.custom_derivatives import linear_call
from weft.define.builtin_primitives import primitives
from weft.extend import Example
from weft.testing import exact_array

# Where derivatives do not exist, or weft does not claim to have them.
DERIVATIVES: dict[str, dict[str, Any]] = {
    "igamma": {"order": 1},  # the derivative in a has one in x only
    "igammac": {"order": 1},
    "igamma_grad_a": {"constant": (0,)},
    "random_gamma_grad": {"constant": (0, 1)},
    "regularized_incomplete_beta": {"constant": (0, 1)},
    "polygamma": {"constant": (0,)},
    "zeta": {"constant": (0,)},
    "nextafter": {"order": 0},  # 0 by definition
    "reduce_precision": {"order": 0},  # that of the identity, whose value it rounds
    "stop_gradient": {"order": 0},
    "while": {"modes": ("fwd",)},
    # Of a symmetric matrix, which only tests/ops/test_ops.py moves within the symmetric ones.
    "cholesky": {"order": 0},
    "eigh": {"order": 0},
    "svd": {"order": 0},  # in complex numbers a phase of the vectors is free
    "hessenberg": {"order": 0},  # these have none, and say so
    "schur": {"order": 0},
    "tridiagonal": {"order": 0},
}

_MESH = "needs a mesh axis; tests/spmd/test_shard_map_matrix.py has all its rules"
_AXIS = f"needs a named axis, and is an ordinary operation along one of vmap; {_MESH}"
UNCHECKED = {
    "all_gather": _AXIS,
    "all_to_all": _AXIS,
    "axis_index": _AXIS,
    "pmax": _AXIS,
    "pmin": _AXIS,
    "ppermute": _AXIS,
    "psum": _AXIS,
    "psum_scatter": _AXIS,
    "all_gather_invariant": _MESH,
    "assume_invariant": _MESH,
    "pbroadcast": _MESH,
    "pscatter": _MESH,
    "shard_map": "needs a mesh; tests/spmd/test_shard_map_composition.py has all its rules",
    "sharding_constraint": "needs a mesh; tests/dispatch/test_jit_shardings.py has all its rules",
    "call_exported": "holds an exported program; tests/export/test_export.py has all its rules",
    "ffi_call": "needs compiled code; tests/ffi/test_ffi.py has all its rules",
    "check": "has no results; tests/experimental/test_checkify.py has all its rules",
    "constant": "has no operand; tests/custom_derivatives/test_custom_rules_with_programs.py",
    "index_vector": "has no operand; made where the groups of a collective are looked up",
    "adapted_eigh": "eigenvectors are not unique; tests/ops/test_lax_linalg.py",
    "block_basis": "eigenvectors are not unique; tests/ops/test_lax_linalg.py",
    "undefined": "a derivative that does not exist; tests/ops/test_lax_linalg.py",
    "bessel_i1": "part of derivatives of i0 and i1; tests/ops/test_derivative_accuracy.py",
    "bessel_quotient": "part of derivatives of i0 and i1; tests/ops/test_derivative_accuracy.py",
    "clone_key": "for debug_key_reuse only; tests/random/test_random_key_reuse.py",
    "use_key": "for debug_key_reuse only; tests/random/test_random_key_reuse.py",
    "platform_index": "has no operand; tests/control_flow/test_platforms.py",
    "dce_sink": "has no result; tests/ops/test_lax_names.py",
    "in_memory": "says where a value is kept; tests/control_flow/test_checkpoint_policies.py",
    "repeated_body": "made on the way to the compiler; tests/interpreters/test_repeated_bodies.py",
    "shard_alike": "needs several devices; tests/experimental/test_compiler_hints.py",
    "xla_metadata_call": "says something to a compiler; tests/experimental/test_compiler_hints.py",
    "xla_metadata_value": "says something to a compiler; tests/experimental/test_compiler_hints.py",
    "inspect_sharding": "has no result; tests/debug/test_array_shardings.py",
    "rng_uniform": "gives other numbers each time; tests/random/test_xla_generator.py",
    "addupdate": "is gone before any transformation sees it; tests/refs/test_references.py",
    "get": "is gone before any transformation sees it; tests/refs/test_references.py",
    "swap": "is gone before any transformation sees it; tests/refs/test_references.py",
    "untaken": "is not linear in rows that are read; tests/control_flow/test_cond.py maps it",
    "custom_vjp_tangents": "is made by linearizing a custom_vjp, which is checked",
}

X = np.array([0.4, 1.1, -0.7])


def on_host(x: Any) -> Any:
    return np.sin(np.real(x).astype(np.float64))


def called_back(x: Any) -> Any:
    of = weft.ShapeDtypeStruct(np.shape(x), np.float64)
    return weft.pure_callback(on_host, of, x, vmap_method="sequential")


def called_in_any_order(x: Any) -> Any:
    of = weft.ShapeDtypeStruct(np.shape(x), np.float64)
    return weft.io_callback(on_host, of, x)


@custom_vmap
def batched_by_rule(x: Any, y: Any) -> Any:
    return lax.sin(x) * y


@batched_by_rule.def_vmap
def batched_rule(size: int, batched: list[bool], x: Any, y: Any) -> Any:
    x, y = (v if b else weft.numpy.broadcast_to(v, (size, *np.shape(v)))
            for v, b in zip((x, y), batched, strict=True))  # fmt: skip
    return lax.sin(x) * y, True


# Functions of which the program is one application, with operands.
def special(name: str) -> Callable[..., Any]:
    return lambda *args: primitives[name].bind(*args)


GIVEN: dict[str, tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]] = {
    **{
        name: (primitives[name].bind, (X,), {})
        for name in ("gelu", "silu", "hard_silu", "relu6", "bessel_i0", "gumbel_log_density")
    },
    **{name: (primitives[name].bind, (abs(X) + 1,), {}) for name in ("flat_log", "flat_sqrt")},
    "custom_vmap": (batched_by_rule, (X, 2 * X), {}),
    "linear_call": (
        lambda r, x: linear_call(lambda r, x: r * x, lambda r, ct: r * ct, r, x),
        (X, 2 * X),
        {"constant": (0,)},
    ),
    "todense": (special("todense"), (X,), {}),  # of sparse arrays: tests/experimental/sparse
    "composite": (lax.composite(lambda x: lax.sin(x) * x, "my.composite"), (X,), {}),
    "ragged_product": (
        lax.ragged_dot,
        (X.reshape(3, 1) * np.ones((3, 2)), np.ones((2, 2, 2)) * 0.5, np.array([1, 2], np.int32)),
        {"constant": (2,)},
    ),
    "rng_bit_generator": (
        lambda key: lax.rng_bit_generator(key, (3,)),
        (np.arange(4, dtype=np.uint32),),
        {"order": 0},
    ),
    "pure_callback": (called_back, (X,), {"order": 0}),
    "io_callback": (called_in_any_order, (X,), {"order": 0}),
    "key_bits": (random.key_data, (random.key(3),), {}),
    "wrap_key_bits": (random.wrap_key_data, (np.array([3, 5], np.uint32),), {}),
    "threefry2x32": (lambda key: random.bits(key, (3,)), (random.key(3),), {}),
    # Differentiated as a sample of its distribution, not as a function of the key.
    "random_gamma": (lambda key: random.gamma(key, 2.5, (3,)), (random.key(3),), {"order": 0}),
    # Kernels that other functions of weft.scipy.special apply for a part of their arguments.
    "hyp1f1_in_a": (special("hyp1f1_in_a"), (X + 1.5, X + 3.0, X), {"order": 0}),
    "hyp1f1_in_b": (special("hyp1f1_in_b"), (X + 1.5, X + 3.0, X), {"order": 0}),
    # Densities that distributions, and derivatives of other primitives, are made of.
    "beta_density": (special("beta_density"), (X + 2.5, X + 3.5, 0.3 + 0.1 * X), {}),
    "binomial_probability": (special("binomial_probability"), (X + 2, X + 3, 0.3 + 0.1 * X), {}),
    "distance_from_mean": (special("distance_from_mean"), (X + 2, X + 3, 0.3 + 0.1 * X), {}),
    "gamma_density": (special("gamma_density"), (X + 2.5, X + 3.5), {}),
    "log_beta_density": (special("log_beta_density"), (X + 2.5, X + 3.5, 0.3 + 0.1 * X), {}),
    "log_binomial_probability": (
        special("log_binomial_probability"),
        (X + 2, X + 3, 0.3 + 0.1 * X),
        {},
    ),
    "log_gamma_density": (special("log_gamma_density"), (X + 2.5, X + 3.5), {}),
    "cauchy_below": (special("cauchy_below"), (X,), {}),
    "cauchy_density": (special("cauchy_density"), (X,), {}),
    "gumbel_density": (special("gumbel_density"), (X,), {}),
    "log_ratio": (special("log_ratio"), (X + 2.5, X + 3.5), {}),
    "log_square": (special("log_square"), (X + 0.4,), {}),
    "logistic_density": (special("logistic_density"), (X + 0.2,), {}),
    "logistic_log_density": (special("logistic_log_density"), (X + 0.2,), {}),
    "log_less_digamma": (special("log_less_digamma"), (X + 2.5,), {}),
    "log_poisson_probability": (special("log_poisson_probability"), (X + 2, X + 3), {}),
    "poisson_probability": (special("poisson_probability"), (X + 2, X + 3), {}),
    "relu": (special("relu"), (X - 0.05,), {}),
    "riemann_zeta": (special("riemann_zeta"), (X + 3.0,), {"order": 0}),
    "scipy_digamma": (special("scipy_digamma"), (X + 2.0,), {}),
    "philox4x32": (
        lambda *words: primitives["philox4x32"].bind(*words),
        tuple(np.arange(3, dtype=np.uint32) + 7 * k for k in range(6)),
        {},
    ),
}


@dataclasses.dataclass(frozen=True)
class Applied:
    """An example of a primitive, and the row of the op table that it comes from."""

    primitive: Primitive
    example: Example
    row: str

    @property
    def key(self) -> Any:
        """Equal for examples that differ in values only."""
        types = tuple(map(type_of, self.example.args))
        return (types, tuple(sorted((k, str(v)) for k, v in self.example.params.items())))

    @property
    def size(self) -> int:
        return sum(type_of(x).size for x in self.example.args)


def derivatives_of(name: str, args: Sequence[Any], params: Any) -> dict[str, Any]:
    """What an example of the primitive says of its derivatives."""
    if name == "scatter_mul" and not params["unique_indices"]:
        return {"constant": (2,)}
    if name == "qr" and params["full_matrices"]:  # the further columns may be any
        return {"order": 0}
    if name == "linear_solve":  # the system stands there several times, and moves as a whole
        return {"constant": tuple(range(sum(params["num_consts"])))}
    if name in ("reduce", "reduce_window"):  # initial values are neutral, and stay so
        return {"constant": tuple(range(len(args) // 2, len(args)))}
    return DERIVATIVES.get(name, {})


def applications(program: Jaxpr, values: Sequence[Any], row: str) -> Iterator[Applied]:
    """Every application that a program makes, with its operands; also those inside of `jit`."""
    known = dict(zip(program.inputs, values, strict=True))
    for eqn in program.eqns:
        args = [
            known[x] if x in known else exact_array(np.asarray(x.value, x.type.dtype))
            for x in eqn.inputs
        ]
        options = derivatives_of(eqn.primitive.name, args, eqn.params)
        yield Applied(eqn.primitive, Example(tuple(args), eqn.params, **options), row)
        if eqn.primitive.name == "jit":
            yield from applications(eqn.params["jaxpr"], args, row)
        outs = eqn.primitive.bind(*args, **eqn.params)
        outs = outs if eqn.primitive.multiple_results else [outs]
        known.update(zip(eqn.outputs, outs, strict=True))


@dataclasses.dataclass(frozen=True)
class Recorded:
    """The program that a row's function makes for some operands, and its operands."""

    row: str
    program: Jaxpr
    values: tuple[Any, ...]
    names: frozenset[str]
    order: int


def names_in(program: Jaxpr) -> set[str]:
    """The primitives that a program applies; also those inside of `jit`."""
    found = set()
    for eqn in program.eqns:
        found.add(eqn.primitive.name)
        if eqn.primitive.name == "jit":
            found |= names_in(eqn.params["jaxpr"])
    return found


@functools.cache
def programs() -> list[Recorded]:
    """What the rows of the op table compute in double precision where they take it, in real and in
    complex numbers: there finite differences say most."""
    found = []
    for row in op_table.rows():
        for dtype in row.grad_dtypes or row.dtypes[:1]:
            operands = row.operands(dtype, grad=True)
            made = weft.make_jaxpr(row.call)(*operands)
            names = frozenset(names_in(made.jaxpr))
            found.append(
                Recorded(row.name, made.jaxpr, (*made.consts, *operands), names, row.order)
            )
    return found


def given(name: str) -> Iterator[Applied]:
    function, operands, options = GIVEN[name]
    program = weft.make_jaxpr(function)(*operands)
    for applied in applications(program.jaxpr, [*program.consts, *operands], "given"):
        if applied.primitive.name == name:
            yield dataclasses.replace(
                applied, example=dataclasses.replace(applied.example, **options)
            )


def checked() -> set[str]:
    """The primitives that have examples."""
    return set(GIVEN).union(*(one.names for one in programs())) - set(UNCHECKED)


def examples(name: str) -> list[Applied]:
    """Examples of a primitive; the first is the one to start with. Of examples of the same types
    and parameters the first is kept."""
    if name in GIVEN:
        return list(given(name))
    found: dict[Any, Applied] = {}
    for one in programs():
        if name in one.names:
            for applied in applications(one.program, one.values, one.row):
                if applied.primitive.name != name:
                    continue
                if not one.order:  # such as at ties
                    rest = dataclasses.replace(applied.example, order=0)
                    applied = dataclasses.replace(applied, example=rest)
                found.setdefault((applied.key, one.order > 0), applied)
    return by_use(list(found.values()))


def by_use(each: list[Applied]) -> list[Applied]:
    """Examples of several elements first, of these those with derivatives, of these the ones that a
    row named after the primitive makes, and of these the smallest."""
    return sorted(each, key=_use)


def _use(applied: Applied) -> tuple[bool, bool, bool, int]:
    name, row = (text.replace("_", " ") for text in (applied.primitive.name, applied.row))
    return applied.size < 3, applied.example.order < 1, name not in row, applied.size
