"""What lowering rules written for JAX are made of, under the names of `jax.interpreters.mlir`.

Values are MLIR values, types `ArrayType`s, and a rule's first argument is a `LoweringContext`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from weft.core import rules
from weft.core.jaxpr import ClosedJaxpr, Jaxpr, eval_jaxpr
from weft.core.primitive import Primitive
from weft.core.types import ArrayType, type_of
from weft.define.checked_lowering import checked_lowering
from weft.errors import Fix, WeftNotImplementedError, WeftTypeError
from weft.interpreters.staging import function_name, trace_to_jaxpr
from weft.lowering.module import LoweringContext, ir_types
from weft.ops.structural.constants import inline_consts
from weft.ops.structural.extended_dtypes import physical_type
from weft.runtime import stablehlo
from weft.runtime.stablehlo.mlir import bytecode
from weft.runtime.stablehlo.mlir import token_type as _token_type

__all__ = [
    "Token", "TokenSet", "aval_to_ir_type", "aval_to_ir_types", "closed_jaxpr",
    "core_call_lowering", "custom_call_op", "dense_bool_array", "dense_bool_elements",
    "dense_int_array", "dense_int_elements", "dtype_to_ir_type", "emit_python_callback",
    "flatten_ir_types", "flatten_ir_values", "i32_attr", "i64_attr", "ir_attribute",
    "ir_constant", "ir_constants", "jaxpr_subcomp", "lower_fun", "make_ir_context",
    "module_to_bytecode", "module_to_string", "set_lowering", "shape_tensor", "token_type",
    "unflatten_ir_values_like_types",
]  # fmt: skip

Rule = Callable[..., Any]


def set_lowering(
    prim: Primitive,
    rule: Rule,
    platform: str | None = None,
    inline: bool = True,
    cacheable: bool = True,
) -> None:
    """Sets the lowering rule of a primitive, in place of one that it has.

    The rule may return a value, or a sequence of values and of sequences of them. `inline` and
    `cacheable` change nothing: rules are called for each equation and emit their operations there.

    Args:
        prim: The primitive that gets the rule.
        rule: The rule: `rule(ctx, *values, **params)` emits operations and returns values.
        platform: The platform that the rule serves alone; None for all without one of their own.
        inline, cacheable: Has no meaning: rules are called for each equation.

    >>> from weft.extend.core import UncheckedPrimitive
    >>> from weft.extend.interpreters import mlir
    >>> double_p = UncheckedPrimitive("double")
    >>> _ = double_p.def_abstract_eval(lambda x: x)
    >>> mlir.set_lowering(double_p, lambda ctx, x: [mlir.hlo.add(x, x)])
    >>> weft.jit(double_p.bind)(np.float32(2.0))
    Array(4., dtype=float32)
    """

    def lower(context: LoweringContext, /, *values: Any, **params: Any) -> list[Any]:
        return flatten_ir_values(rule(context, *values, **params))

    own = checked_lowering(prim, lower)
    if platform is None:
        rules.lower[prim] = own
    else:
        rules.lower_for_platform[prim, "cuda" if platform == "gpu" else platform] = own


def lower_fun(fun: Rule, multiple_results: bool = True) -> Rule:
    """The lowering rule of a function of arrays: what the function computes is emitted in place.

    Args:
        fun: A function of arrays, and of the primitive's parameters as keywords.
        multiple_results: Whether it returns a sequence of results, and not one.

    >>> from weft.extend.core import UncheckedPrimitive
    >>> from weft.extend.interpreters import mlir
    >>> cube_p = UncheckedPrimitive("cube")
    >>> _ = cube_p.def_abstract_eval(lambda x: x)
    >>> mlir.set_lowering(cube_p, mlir.lower_fun(lambda x: x**3, multiple_results=False))
    >>> weft.jit(cube_p.bind)(np.float32(2.0))
    Array(8., dtype=float32)
    """

    def lowered(ctx: LoweringContext, *values: Any, **params: Any) -> list[Any]:
        def flat(*xs: Any) -> Sequence[Any]:
            found = fun(*xs, **params)
            return list(found) if multiple_results else [found]

        jaxpr, consts = trace_to_jaxpr(
            flat, ctx.in_types, transformation="lowering", name=function_name(fun)
        )
        return ctx.lower_jaxpr(inline_consts(jaxpr, consts), values)

    return lowered


def closed_jaxpr(jaxpr: Jaxpr | ClosedJaxpr) -> Jaxpr:
    """A jaxpr whose inputs are its arguments."""
    if isinstance(jaxpr, Jaxpr):
        return jaxpr.jaxpr
    own = jaxpr
    whole, consts = trace_to_jaxpr(
        lambda *xs: eval_jaxpr(own, own.consts, *xs),
        own.in_avals,
        transformation="lowering",
        name=own.jaxpr.name,
    )
    return inline_consts(whole, consts)


def core_call_lowering(
    ctx: LoweringContext, *args: Any, name: str, backend: Any = None, call_jaxpr: Any
) -> list[Any]:
    """Emits a call of a function that computes `call_jaxpr`.

    Args:
        args: The MLIR values of the operands.
        name: The name of the function in the module.
        backend: Has no meaning: a program is for one platform.
        call_jaxpr: The jaxpr, or closed jaxpr, that the function computes.
    """
    return ctx.call_jaxpr(closed_jaxpr(call_jaxpr), name, flatten_ir_values(args))


def jaxpr_subcomp(ctx: LoweringContext, jaxpr: Any, *values: Any, **_: Any) -> list[Any]:
    """Emits the operations of a jaxpr in place, given a rule's context and the MLIR values.

    Raises WeftNotImplementedError for a module's context, from which an equation is not known.

    Args:
        values: The MLIR values of the jaxpr's inputs.
        _: Further arguments of JAX's function, which have no meaning here.
    """
    if not isinstance(ctx, LoweringContext):
        raise WeftNotImplementedError(
            "jaxpr_subcomp takes the context of a lowering rule",
            operation="jaxpr_subcomp",
            got=f"{ctx!r:.80}",
            wanted="the rule's first argument, the jaxpr and the values",
        )
    return ctx.lower_jaxpr(closed_jaxpr(jaxpr), flatten_ir_values(values))


# ---- types and constants -----------------------------------------------------------------------


def aval_to_ir_type(*ctx_and_aval: Any) -> Any:
    """The MLIR type of a value as it is stored; a module's context may come before the type.

    Args:
        ctx_and_aval: The array type, alone or behind the context of the module.
    """
    return stablehlo.array_type_to_ir(physical_type(ctx_and_aval[-1]))


def aval_to_ir_types(*ctx_and_aval: Any) -> tuple[Any, ...]:
    """The MLIR types of a value: one, in a tuple.

    Args:
        ctx_and_aval: The array type, alone or behind the context of the module.
    """
    return (aval_to_ir_type(*ctx_and_aval),)


def dtype_to_ir_type(dtype: Any) -> Any:
    """The MLIR type of an element.

    Args:
        dtype: A NumPy dtype.
    """
    return stablehlo.element_type(np.dtype(dtype))


def ir_constant(val: Any, *, const_lowering: Any = None, aval: ArrayType | None = None) -> Any:
    """A constant: a number, a NumPy array or an array of weft.

    Args:
        const_lowering: Has no meaning: constants are emitted where they are used.
        aval: The type of the constant; None for that of `val`.
        val: The number or array.
    """
    of = type_of(val) if aval is None else aval
    return stablehlo.constant(np.asarray(val), of.shape, of.dtype)


def ir_constants(
    val: Any, *, const_lowering: Any = None, aval: ArrayType | None = None
) -> tuple[Any, ...]:
    """A constant, in a tuple.

    Args:
        const_lowering: Has no meaning: constants are emitted where they are used.
        aval: The type of the constant; None for that of `val`.
        val: The number or array.
    """
    return (ir_constant(val, aval=aval),)


def _dense(xs: Any, dtype: Any) -> Any:
    array = np.ascontiguousarray(np.asarray(xs, dtype))
    if dtype == np.bool_:
        packed = np.packbits(array, bitorder="little")
        kind = stablehlo.ir.IntegerType.get_signless(1, stablehlo.context())
        return stablehlo.ir.DenseElementsAttr.get(
            packed, type=kind, shape=array.shape, context=stablehlo.context()
        )
    return stablehlo.ir.DenseIntElementsAttr.get(array, context=stablehlo.context())


def dense_int_elements(xs: Any) -> Any:
    """An attribute of 64-bit integers, as a tensor.

    Args:
        xs: The integers, a sequence or an array of any shape.
    """
    return _dense(xs, np.int64)


def dense_bool_elements(xs: Any) -> Any:
    """An attribute of booleans, as a tensor.

    Args:
        xs: The booleans, a sequence or an array of any shape.
    """
    return _dense(xs, np.bool_)


def dense_int_array(xs: Any) -> Any:
    """An attribute of 64-bit integers, as an array.

    Args:
        xs: The integers, a sequence.
    """
    return stablehlo.ir.DenseI64ArrayAttr.get([int(x) for x in xs], stablehlo.context())


def dense_bool_array(xs: Any) -> Any:
    """An attribute of booleans, as an array.

    Args:
        xs: The booleans, a sequence.
    """
    return stablehlo.ir.DenseBoolArrayAttr.get([bool(x) for x in xs], stablehlo.context())


def _integer(value: int, bits: int) -> Any:
    kind = stablehlo.ir.IntegerType.get_signless(bits, stablehlo.context())
    return stablehlo.ir.IntegerAttr.get(kind, value)


def i32_attr(i: int) -> Any:
    """An attribute of one 32-bit integer.

    Args:
        i: A Python int that fits into 32 bits.
    """
    return _integer(i, 32)


def i64_attr(i: int) -> Any:
    """An attribute of one 64-bit integer.

    Args:
        i: A Python int that fits into 64 bits.
    """
    return _integer(i, 64)


def ir_attribute(val: Any) -> Any:
    """The MLIR attribute of a Python value: a number, a str, a sequence, a dictionary, an array.

    Args:
        val: The Python value.
    """
    return stablehlo.to_attribute(val)


def shape_tensor(ctx: Any, sizes: Sequence[Any]) -> Any:
    """A vector of lengths as 32-bit integers; each is an int or an MLIR value.

    Args:
        sizes: The lengths, in order.
    """
    parts = [
        stablehlo.constant([size], (1,), np.int32)
        if isinstance(size, int)
        else stablehlo.reshape(stablehlo.convert(size, np.int32), (1,))
        for size in sizes
    ]
    if not parts:
        return stablehlo.constant(np.zeros(0, np.int32), (0,), np.int32)
    return stablehlo.concatenate(parts, 0)


def flatten_ir_values(xs: Any) -> list[Any]:
    """The values in a value, a sequence of values, or a sequence of sequences of them.

    Args:
        xs: A value, or values nested up to two deep.
    """
    if isinstance(xs, stablehlo.ir.Value):
        return [xs]
    if isinstance(xs, stablehlo.ir.OpView):
        return list(xs.results)
    out: list[Any] = []
    for x in xs:
        out += flatten_ir_values(x) if isinstance(x, (tuple, list)) else [x]
    return out


def flatten_ir_types(xs: Iterable[Any]) -> list[Any]:
    """The types in a sequence of types, or of sequences of them.

    Args:
        xs: The types, or sequences of them.
    """
    return [y for x in xs for y in (x if isinstance(x, (tuple, list)) else (x,))]


def unflatten_ir_values_like_types(xs: Iterable[Any], ys: Sequence[Any]) -> list[Any]:
    """Values grouped as types are: a tuple of values for a tuple of types.

    Args:
        xs: The values, in one sequence.
        ys: The types, or tuples of them, by which they are grouped.
    """
    values = iter(xs)
    return [
        tuple(next(values) for _ in y) if isinstance(y, (tuple, list)) else next(values) for y in ys
    ]


# ---- modules -----------------------------------------------------------------------------------


def make_ir_context() -> Any:
    """The MLIR context that weft's modules are made in, with its dialects."""
    return stablehlo.context()


def module_to_string(module: Any, enable_debug_info: bool | None = None) -> str:
    """A module as text, with locations if asked for.

    Args:
        module: The MLIR module.
        enable_debug_info: Whether locations are shown; None for not.
    """
    return str(module.operation.get_asm(enable_debug_info=bool(enable_debug_info)))


def module_to_bytecode(module: Any) -> bytes:
    """A module as MLIR bytecode.

    Args:
        module: The MLIR module.
    """
    return bytecode(module)


def token_type() -> Any:
    """The MLIR type of a token."""
    return _token_type()


# ---- calls -------------------------------------------------------------------------------------


def custom_call_op(
    call_target_name: str,
    *,
    result_types: Sequence[Any],
    operands: Sequence[Any],
    backend_config: Any = "",
    has_side_effect: bool = False,
    api_version: int = 2,
    called_computations: Sequence[str] = (),
    operand_output_aliases: dict[int, int] | None = None,
    operand_layouts: Sequence[Sequence[int]] | None = None,
    result_layouts: Sequence[Sequence[int]] | None = None,
    **more: Any,
) -> Any:
    """Emits a call of the handler that is registered with XLA; the operation, with `results`.

    Raises WeftNotImplementedError for results of shapes that are computed, and extra attributes.

    Args:
        call_target_name: The name under which the handler is registered.
        result_types: The MLIR types of the results.
        operands: The MLIR values that the handler reads.
        backend_config: What the handler is told: a str or bytes, or a dictionary with
            `api_version=4`.
        has_side_effect: Whether the call stays though nothing reads its results.
        api_version: The version of XLA's calling convention; 4 is the typed foreign function
            interface.
        called_computations: The symbols of functions of the module that the handler may run.
        operand_output_aliases: The result that shares memory with an operand, by the operand's
            number.
        operand_layouts: The order of dimensions in memory of each operand, minor to major; None
            leaves it to XLA.
        result_layouts: The order of dimensions in memory of each result, minor to major; None
            leaves it to XLA.
        more: Further arguments of JAX's function, which have to be empty.
    """
    if any(value for value in more.values()):
        names = ", ".join(name for name, value in more.items() if value)
        message = f"custom_call with {names}"
        raise WeftNotImplementedError(
            message, operation="custom_call", wanted="results of static types"
        )
    if isinstance(backend_config, bytes):
        backend_config = backend_config.decode("latin-1")
    outs = stablehlo.custom_call(
        call_target_name,
        list(operands),
        list(result_types),
        backend_config=backend_config or ({} if api_version == 4 else ""),
        api_version=api_version,
        has_side_effect=has_side_effect,
        called_computations=called_computations,
        operand_output_aliases=operand_output_aliases,
        operand_layouts=operand_layouts,
        result_layouts=result_layouts,
    )
    return outs[0].owner.opview if outs else _Nothing()


class _Nothing:
    """An operation without results."""

    results: tuple[Any, ...] = ()


class _ArraysCallback:
    """A Python function of NumPy arrays for an executable, whose results are checked."""

    def __init__(self, function: Rule, out_types: Sequence[ArrayType]) -> None:
        self.function = function
        self.out_types = [physical_type(type) for type in out_types]

    def __call__(self, *arrays: Any) -> tuple[Any, ...]:
        found = [np.asarray(out) for out in self.function(*arrays)]
        got = [(out.shape, out.dtype) for out in found]
        wanted = [(type.shape, type.dtype) for type in self.out_types]
        if got != wanted:
            raise WeftTypeError(
                "a callback returned arrays of other types than it was emitted with",
                operation=function_name(self.function),
                got=", ".join(f"{dtype}{list(shape)}" for shape, dtype in got),
                wanted=", ".join(map(str, self.out_types)),
                fix=Fix("result_types", "return arrays of these shapes and dtypes"),
            )
        return tuple(found)

    def zeros(self) -> tuple[Any, ...]:
        """The results where the function has failed and the executable goes on."""
        return tuple(np.zeros(type.shape, type.dtype) for type in self.out_types)


def emit_python_callback(
    ctx: LoweringContext,
    callback: Rule,
    token: Any,
    operands: Sequence[Any],
    operand_avals: Sequence[ArrayType],
    result_avals: Sequence[ArrayType],
    *,
    has_side_effect: bool = False,
    returns_token: bool = True,
    partitioned: bool = False,
    sharding: Any = None,
) -> tuple[list[Any], Any, Any]:
    """Emits a call of a Python function, from NumPy arrays to a sequence of arrays of the types
    `result_avals`; gives its results, the token, and None (the module keeps the function).

    Raises WeftNotImplementedError on other platforms than the CPU and CUDA.

    Args:
        callback: The function, from NumPy arrays to a sequence of them.
        token: A value that is passed through: weft orders effects by itself.
        operands: The MLIR values that the function gets as arrays.
        operand_avals: The types of the operands.
        has_side_effect: Has no meaning: the call stays in any case.
        returns_token: Has no meaning: tokens are passed through.
        partitioned: Has no meaning: the first device calls the function.
        sharding: Has no meaning: the first device calls the function.
        result_avals: The types of the arrays that the function returns.
    """
    if ctx.platform not in ("cpu", "cuda"):
        raise WeftNotImplementedError(
            "emit_python_callback: Python is called on the CPU and NVIDIA GPUs only",
            operation=ctx.primitive.name,
            got=f"a program for {ctx.platform!r}",
            wanted="a program for the CPU or CUDA",
        )
    index = ctx.add_callback(_ArraysCallback(callback, result_avals))
    outs = list(stablehlo.callback(index, list(operands), ir_types(result_avals), ctx.platform))
    if outs:
        ctx.module.run_on_first(outs[0].owner)
    return outs, token, None


class TokenSet:
    """Tokens by effect. weft orders effects by itself, so tokens have no meaning.

    Args:
        tokens: The token of each effect.
    """

    def __init__(self, tokens: dict[Any, Any] | None = None) -> None:
        self._tokens = dict(tokens or {})

    def get(self, effect: Any) -> Any:
        """The token of an effect, made if there is none."""
        if effect not in self._tokens:
            self._tokens[effect] = stablehlo.op1("stablehlo.create_token", (), token_type())
        return self._tokens[effect]

    def items(self) -> Any:
        """The effects with their tokens."""
        return self._tokens.items()

    def effects(self) -> set[Any]:
        """The effects that have tokens."""
        return set(self._tokens)

    def subset(self, effects: Iterable[Any]) -> TokenSet:
        """The tokens of some effects."""
        return TokenSet({effect: self.get(effect) for effect in effects})

    def update_tokens(self, tokens: TokenSet) -> TokenSet:
        """The tokens, replaced by those of another set where it has them."""
        return TokenSet(self._tokens | dict(tokens.items()))

    def __len__(self) -> int:
        return len(self._tokens)


Token = Any
