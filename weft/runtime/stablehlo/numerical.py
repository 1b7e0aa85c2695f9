"""StableHLO operations that compute more than element by element, and calls.

Matrix products, convolutions, Fourier transforms, factorizations, random bits, and calls of
functions and of compiled handlers. See the StableHLO specification,
https://github.com/openxla/stablehlo/blob/main/docs/spec.md.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from weft.errors import Fix, WeftNotImplementedError
from weft.runtime.stablehlo import attributes as attrs
from weft.runtime.stablehlo.mlir import (
    attribute,
    context,
    element_type,
    ir,
    op,
    op1,
    ranked,
    tensor_type,
)
from weft.runtime.stablehlo.mlir import stablehlo as hlo

if TYPE_CHECKING:
    from numpy.typing import DTypeLike

# ---- products ----------------------------------------------------------------------------------


def _precision(precision: str | tuple[str, str] | None) -> ir.Attribute:
    if precision is None:
        return attrs.precision_config("DEFAULT", "DEFAULT")
    left, right = (precision, precision) if isinstance(precision, str) else precision
    return attrs.precision_config(left.upper(), right.upper())


@functools.lru_cache(maxsize=4096)
def _dot_numbers(
    contracting: tuple[tuple[int, ...], tuple[int, ...]],
    batch: tuple[tuple[int, ...], tuple[int, ...]],
) -> ir.Attribute:
    return hlo.DotDimensionNumbers.get(*batch, *contracting, context=context())


class ProductAlgorithm(NamedTuple):
    """An algorithm for products, as in the StableHLO specification: the numbers that it multiplies
    and adds up, and of how many parts each operand is made; whether XLA has it on the CPU, the
    dtype that operands are converted to before (None: any), and that of the product.

    Args:
        factors: The MLIR type of the numbers that are multiplied, such as "bf16".
        sums: The MLIR type in which products are added up, such as "f32".
        components: Into how many parts each operand is split.
        products: How many products of parts are added up for one result.
        imprecise: Whether some products may be added up less exactly.
        on_cpu: Whether XLA has the algorithm on the CPU.
        stored: The dtype that operands are converted to before; None for any.
        summed: The dtype of the product.
    """

    factors: str
    sums: str
    components: int = 1
    products: int = 1
    imprecise: bool = False
    on_cpu: bool = False
    stored: str | None = None
    summed: str = "float32"


DOT_ALGORITHMS: dict[str, ProductAlgorithm] = {
    "ANY_F8_ANY_F8_F32": ProductAlgorithm("f8E5M2", "f32"),
    "ANY_F8_ANY_F8_F32_FAST_ACCUM": ProductAlgorithm("f8E5M2", "f32", imprecise=True),
    "ANY_F8_ANY_F8_ANY": ProductAlgorithm("f8E5M2", "f32"),
    "ANY_F8_ANY_F8_ANY_FAST_ACCUM": ProductAlgorithm("f8E5M2", "f32", imprecise=True),
    "F16_F16_F16": ProductAlgorithm("f16", "f16", on_cpu=True, stored="float16", summed="float16"),
    "F16_F16_F32": ProductAlgorithm("f16", "f32", stored="float16"),
    "BF16_BF16_BF16": ProductAlgorithm("bf16", "bf16", stored="bfloat16", summed="bfloat16"),
    "BF16_BF16_F32": ProductAlgorithm("bf16", "f32", on_cpu=True, stored="float32"),
    "BF16_BF16_F32_X3": ProductAlgorithm("bf16", "f32", 1, 3, on_cpu=True, stored="float32"),
    "BF16_BF16_F32_X6": ProductAlgorithm("bf16", "f32", 1, 6, on_cpu=True, stored="float32"),
    "BF16_BF16_F32_X9": ProductAlgorithm("bf16", "f32", 1, 9, stored="float32"),
    "TF32_TF32_F32": ProductAlgorithm("tf32", "f32", stored="float32"),
    "TF32_TF32_F32_X3": ProductAlgorithm("tf32", "f32", 1, 3, stored="float32"),
    "F32_F32_F32": ProductAlgorithm("f32", "f32", on_cpu=True, stored="float32"),
    "F64_F64_F64": ProductAlgorithm("f64", "f64", on_cpu=True, stored="float64", summed="float64"),
}


@functools.cache
def _dot_algorithm(name: str) -> ir.Attribute:
    found = DOT_ALGORITHMS[name]
    factors, sums = (_FLOATS[text] for text in (found.factors, found.sums))
    return hlo.DotAlgorithm.get(
        factors(context()),
        factors(context()),
        sums(context()),
        found.components,
        found.components,
        found.products,
        found.imprecise,
        ctx=context(),
    )


# The classes of the bindings for the numbers of algorithms; by name, since they load late.
_FLOATS = {
    "f8E5M2": lambda at: ir.Float8E5M2Type.get(at),
    "f16": lambda at: ir.F16Type.get(at),
    "bf16": lambda at: ir.BF16Type.get(at),
    "tf32": lambda at: ir.FloatTF32Type.get(at),
    "f32": lambda at: ir.F32Type.get(at),
    "f64": lambda at: ir.F64Type.get(at),
}


def dot_general(
    lhs: ir.Value,
    rhs: ir.Value,
    contracting: tuple[Sequence[int], Sequence[int]],
    batch: tuple[Sequence[int], Sequence[int]] = ((), ()),
    precision: str | tuple[str, str] | None = None,
    dtype: DTypeLike | None = None,
) -> ir.Value:
    """Sums products over the contracted dimensions; the result has the batch dimensions first, then
    what remains of lhs, then what remains of rhs. `dtype` is the result's, by default lhs's.

    Args:
        contracting: The dimensions of lhs, and those of rhs, over which products are summed.
        batch: The dimensions of lhs, and those of rhs, whose elements are multiplied one by one.
        precision: "DEFAULT", "HIGH" or "HIGHEST", a pair for the two operands, or the name of an
            algorithm; None for the default.
        lhs: The left operand.
        rhs: The right operand, of the dtype of the left one.
        dtype: The dtype of the result; None for that of lhs.
    """
    pairs = (tuple(contracting[0]), tuple(contracting[1]))
    batches = (tuple(batch[0]), tuple(batch[1]))
    left, right = lhs.type.shape, rhs.type.shape
    shape = [left[axis] for axis in batches[0]]
    shape += [n for axis, n in enumerate(left) if axis not in batches[0] + pairs[0]]
    shape += [n for axis, n in enumerate(right) if axis not in batches[1] + pairs[1]]
    element = lhs.type.element_type if dtype is None else element_type(dtype)
    config = {"dot_dimension_numbers": _dot_numbers(pairs, batches)}
    if isinstance(precision, str) and precision in DOT_ALGORITHMS:
        config["precision_config"] = _precision(None)
        config["algorithm"] = _dot_algorithm(precision)
    else:
        config["precision_config"] = _precision(precision)
    return op1("stablehlo.dot_general", (lhs, rhs), ranked(shape, element), config)


class ConvDimensions(NamedTuple):
    """The dimension numbers of a convolution, named as in the StableHLO specification.

    Args:
        input_batch: The dimension of the left operand that counts examples.
        input_feature: The dimension of the left operand that counts channels.
        input_spatial: The dimensions of the left operand over which the window moves, in order.
        kernel_input_feature: The dimension of the right operand that counts input channels.
        kernel_output_feature: The dimension of the right operand that counts output channels.
        kernel_spatial: The dimensions of the right operand that make up the window, in order.
        output_batch: The dimension of the result that counts examples.
        output_feature: The dimension of the result that counts channels.
        output_spatial: The dimensions of the result that count positions of the window, in order.
    """

    input_batch: int
    input_feature: int
    input_spatial: tuple[int, ...]
    kernel_input_feature: int
    kernel_output_feature: int
    kernel_spatial: tuple[int, ...]
    output_batch: int
    output_feature: int
    output_spatial: tuple[int, ...]


@functools.lru_cache(maxsize=4096)
def _conv_numbers(dimensions: ConvDimensions) -> ir.Attribute:
    return hlo.ConvDimensionNumbers.get(*dimensions, ctx=context())


def convolution(
    lhs: ir.Value,
    rhs: ir.Value,
    result_type: ir.Type,
    dimensions: ConvDimensions,
    *,
    strides: Sequence[int],
    padding: Sequence[tuple[int, int]],
    lhs_dilation: Sequence[int] | None = None,
    rhs_dilation: Sequence[int] | None = None,
    window_reversal: Sequence[bool] | None = None,
    feature_group_count: int = 1,
    batch_group_count: int = 1,
    precision: str | tuple[str, str] | None = None,
) -> ir.Value:
    """Slides rhs over lhs; padding may be negative.

    Args:
        lhs: The array over which the window slides.
        rhs: The window's weights.
        result_type: The tensor type of the result.
        dimensions: Which dimensions of operands and result count examples, channels and positions.
        strides: How far the window moves, per spatial dimension.
        padding: How many zeros are added (before, after), per spatial dimension.
        lhs_dilation: The distance between elements of lhs, zeros between them; None for 1.
        rhs_dilation: The distance between elements of the window; None for 1.
        window_reversal: Whether the window is read backwards, per spatial dimension; None for not.
        feature_group_count: Into how many groups, convolved apart, channels are split.
        batch_group_count: Into how many groups, convolved apart, examples are split.
        precision: "DEFAULT", "HIGH" or "HIGHEST", or a pair for the two operands; None for the
            default.
    """
    spatial = len(strides)
    ones = (1,) * spatial
    config = {
        "window_strides": attrs.integers(strides),
        "padding": attrs.table(tuple(map(tuple, padding)), 2),
        "lhs_dilation": attrs.integers(ones if lhs_dilation is None else lhs_dilation),
        "rhs_dilation": attrs.integers(ones if rhs_dilation is None else rhs_dilation),
        "window_reversal": attrs.booleans(tuple(window_reversal or (False,) * spatial)),
        "dimension_numbers": _conv_numbers(dimensions),
        "feature_group_count": attrs.integer(feature_group_count),
        "batch_group_count": attrs.integer(batch_group_count),
        "precision_config": _precision(precision),
    }
    return op1("stablehlo.convolution", (lhs, rhs), result_type, config)


# ---- numerical algorithms ----------------------------------------------------------------------


def fft(x: ir.Value, kind: str, lengths: Sequence[int]) -> ir.Value:
    """FFT, IFFT, RFFT or IRFFT over the last dimensions, of the given (real) lengths.

    Args:
        kind: "FFT", "IFFT", "RFFT" or "IRFFT".
        lengths: The lengths of the transformed dimensions, which are the last ones.
    """
    shape, element = list(x.type.shape), x.type.element_type
    if kind == "RFFT":
        shape[-1] = lengths[-1] // 2 + 1
        element = ir.ComplexType.get(element)
    elif kind == "IRFFT":
        shape[-1] = lengths[-1]
        element = element.element_type
    config = {"fft_type": attrs.enum_value("FftType", kind), "fft_length": attrs.integers(lengths)}
    return op1("stablehlo.fft", (x,), ranked(shape, element), config)


def cholesky(a: ir.Value, lower: bool = True) -> ir.Value:
    """The Cholesky factor of each matrix; the other triangle is not defined.

    Args:
        a: Symmetric or Hermitian matrices, in the last two dimensions; only one triangle is read.
        lower: Whether the lower triangle is read and the factor is lower triangular.
    """
    return op1("stablehlo.cholesky", (a,), a.type, {"lower": attrs.boolean(lower)})


def triangular_solve(
    a: ir.Value,
    b: ir.Value,
    *,
    left_side: bool,
    lower: bool,
    unit_diagonal: bool = False,
    transpose_a: str = "NO_TRANSPOSE",
) -> ir.Value:
    """Solves op(a) x = b or x op(a) = b; `transpose_a` is NO_TRANSPOSE, TRANSPOSE or ADJOINT.

    Args:
        a: Triangular matrices, in the last two dimensions; only one triangle is read.
        b: The right-hand sides, matrices in the last two dimensions.
        left_side: Whether op(a) x = b is solved, and not x op(a) = b.
        lower: Whether the lower triangle of `a` is read, and not the upper one.
        unit_diagonal: Whether the diagonal of `a` counts as ones and is not read.
        transpose_a: What op is: "NO_TRANSPOSE", "TRANSPOSE" or "ADJOINT".
    """
    config = {
        "left_side": attrs.boolean(left_side),
        "lower": attrs.boolean(lower),
        "unit_diagonal": attrs.boolean(unit_diagonal),
        "transpose_a": attrs.enum_value("Transpose", transpose_a),
    }
    return op1("stablehlo.triangular_solve", (a, b), b.type, config)


def rng_bit_generator(
    state: ir.Value, shape: Sequence[int], dtype: DTypeLike, algorithm: str = "THREE_FRY"
) -> tuple[ir.Value, ir.Value]:
    """The next state (64-bit words) and random bits, by THREE_FRY, PHILOX or DEFAULT.

    Args:
        state: The state, a vector of uint64.
        dtype: An unsigned dtype: that of the random bits.
        algorithm: "THREE_FRY", "PHILOX", or "DEFAULT" for the platform's choice.
    """
    config = {"rng_algorithm": attrs.enum_value("RngAlgorithm", algorithm)}
    types = (state.type, tensor_type(shape, dtype))
    new_state, bits = op("stablehlo.rng_bit_generator", (state,), types, config)
    return new_state, bits


def top_k(x: ir.Value, k: int, largest: bool = True) -> tuple[ir.Value, ir.Value]:
    """The k largest (or smallest) elements along the last dimension, sorted, and their indices
    (int32).

    Args:
        k: How many elements are taken, an int.
        largest: Whether the largest are taken, and not the smallest.
    """
    shape = [*x.type.shape[:-1], k]
    types = (ranked(shape, x.type.element_type), tensor_type(shape, np.int32))
    config = {"k": attrs.integer(k), "largest": attrs.boolean(largest)}
    values, positions = op("chlo.top_k", (x,), types, config)
    return values, positions


# ---- calls -------------------------------------------------------------------------------------


def call(
    symbol: str,
    operands: Sequence[ir.Value],
    result_types: Sequence[ir.Type],
    *,
    inline: bool = True,
) -> list[ir.Value]:
    """Calls a function of the module, which XLA compiles as a part of the caller, or once for all
    calls that it may not `inline`.

    Args:
        symbol: The symbol of the function that is called.
        inline: Whether XLA may compile the function as a part of the caller.
    """
    attributes = {"callee": attrs.symbol(symbol)}
    if not inline:
        attributes["mhlo.frontend_attributes"] = attrs.dictionary({"inlineable": "false"})
    return op("func.call", operands, result_types, attributes)


def composite(
    name: str,
    operands: Sequence[ir.Value],
    result_types: Sequence[ir.Type],
    decomposition: str,
    version: int,
    attributes: Mapping[str, Any],
) -> list[ir.Value]:
    """The operation of a name, with the function of the module that says what it computes.

    Args:
        name: The operation's name, with a namespace, such as "my.gelu".
        decomposition: The symbol of the function that computes the same.
        version: The version of the operation's meaning.
        attributes: The operation's parameters, as Python values by name.
    """
    config = {
        "name": attrs.string(name),
        "decomposition": attrs.symbol(decomposition),
        "version": attrs.integer(version, 32),
        "composite_attributes": attrs.dictionary(attributes),
    }
    return op("stablehlo.composite", operands, result_types, config)


def rng_uniform(low: ir.Value, high: ir.Value, shape: Sequence[int], dtype: DTypeLike) -> ir.Value:
    """Random numbers from low on and below high, from a state that the runtime holds.

    Args:
        low: The lower bound, a scalar.
        high: The upper bound, a scalar.
    """
    config = {"rng_distribution": attrs.enum_value("RngDistribution", "UNIFORM")}
    lengths = np.asarray(shape, np.int64)
    value = {"value": attrs.elements(lengths, lengths.shape)}
    extents = op1("stablehlo.constant", (), tensor_type(lengths.shape, lengths.dtype), value)
    return op1("stablehlo.rng", (low, high, extents), tensor_type(shape, dtype), config)


def optimization_barrier(values: Sequence[ir.Value]) -> list[ir.Value]:
    """The values unchanged, which the compiler may not move or merge computations across.

    Args:
        values: Values of the module that is built; all are ready before one of the results is.
    """
    return op("stablehlo.optimization_barrier", values, [value.type for value in values])


def custom_call(
    target: str,
    operands: Sequence[ir.Value],
    result_types: Sequence[ir.Type],
    *,
    backend_config: str | dict[str, Any] = "",
    api_version: int | None = None,
    has_side_effect: bool = False,
    operand_layouts: Sequence[Sequence[int]] | None = None,
    result_layouts: Sequence[Sequence[int]] | None = None,
    operand_output_aliases: dict[int, int] | None = None,
    called_computations: Sequence[str] = (),
) -> list[ir.Value]:
    """Calls the handler that is registered with XLA under `target`.

    A dictionary as `backend_config` becomes typed attributes and needs version 4, the typed foreign
    function interface (the default for it); a string goes with version 2. Layouts are minor to
    major, one for each operand or result; `operand_output_aliases` maps operands to the results
    that share their memory.

    Args:
        api_version: The version of XLA's calling convention; None for the one that fits the config.
        has_side_effect: Whether the call stays though nothing reads its results.
        operand_layouts: The order of dimensions in memory of each operand; None leaves it to XLA.
        result_layouts: The order of dimensions in memory of each result; None leaves it to XLA.
        called_computations: The symbols of functions of the module that the handler may run.
        target: The name under which the handler is registered.
        backend_config: What the handler is told: a text, or typed attributes by name.
        operand_output_aliases: The number of the result that shares memory with an operand, by the
            operand's number.
    """
    typed = not isinstance(backend_config, str)
    config: dict[str, ir.Attribute] = {
        "call_target_name": attrs.string(target),
        "api_version": attrs.integer(api_version or (4 if typed else 2), 32),
        "has_side_effect": attrs.boolean(has_side_effect),
        "backend_config": attrs.to_attribute(backend_config),
    }
    if called_computations:
        names = [attrs.symbol(name) for name in called_computations]
        config["called_computations"] = ir.ArrayAttr.get(names, context())
    if operand_layouts is not None:
        config["operand_layouts"] = _layouts(operand_layouts)
    if result_layouts is not None:
        config["result_layouts"] = _layouts(result_layouts)
    if operand_output_aliases:
        several = len(result_types) > 1
        aliases = [
            hlo.OutputOperandAlias.get([result] if several else [], operand, [], ctx=context())
            for operand, result in operand_output_aliases.items()
        ]
        config["output_operand_aliases"] = ir.ArrayAttr.get(aliases, context())
    return op("stablehlo.custom_call", operands, result_types, config)


def memory_placement(x: ir.Value, kind: str) -> ir.Value:
    """The value in memory of the device of this kind, for compilers that know several.

    Args:
        kind: The kind of memory, such as "device" or "pinned_host".
    """
    (moved,) = custom_call("annotate_device_placement", [x], [x.type], has_side_effect=True)
    add_metadata(moved, {"_xla_buffer_placement": kind})
    return moved


def add_metadata(x: ir.Value, pairs: Mapping[str, str]) -> None:
    """Adds names and values for passes of XLA to the operation that computes a value; those that it
    has already stay. An argument has no operation, and nothing is added.

    Args:
        x: The value whose operation gets them.
        pairs: The values to add, by name; both are strings.
    """
    if isinstance(x.owner, ir.Block):
        return
    attributes = x.owner.operation.attributes
    name = "mhlo.frontend_attributes"
    there = {own.name: own.attr for own in attributes[name]} if name in attributes else {}
    attributes[name] = ir.DictAttr.get(
        {key: attrs.string(text) for key, text in pairs.items()} | there, context()
    )


def callback(
    index: int, operands: Sequence[ir.Value], result_types: Sequence[ir.Type], platform: str
) -> list[ir.Value]:
    """Calls a Python function of the process, number `index` of those the module is compiled with.

    `platform` is "cpu" or "cuda". Operands and results are in row-major order. It counts as having
    side effects even where it has none: otherwise XLA is free to run it when its result is not
    used, as it does with branches that are not taken and operations that it moves out of loops.

    Raises WeftNotImplementedError inside an operation that combines elements, such as a reduction:
    compiling it would end the process.

    Args:
        index: The number of the function among those that the module is compiled with.
        platform: The platform that the module is for: "cpu" or "cuda".
    """
    around = ir.InsertionPoint.current.block.owner.operation
    while around is not None and around.name != "func.func":
        if around.name not in _MAY_CALL:
            message = "a callback in a function that combines elements, inside one operation of XLA"
            got = "a callback"
            fix = Fix("scan", "combine the elements with weft.lax.scan", {"operation": around.name})
            raise WeftNotImplementedError(
                message, operation=around.name, got=got, wanted="a function of arithmetic", fix=fix
            )
        around = around.parent.operation if around.parent is not None else None
    return custom_call(
        _CALLBACK_TARGETS[platform],
        operands,
        result_types,
        backend_config={"index": np.uint64(index)},
        has_side_effect=True,
        operand_layouts=[_row_major(value.type) for value in operands],
        result_layouts=[_row_major(kind) for kind in result_types],
    )


# The handlers that call Python functions, by platform.
_CALLBACK_TARGETS = {"cpu": "xla_ffi_python_cpu_callback", "cuda": "xla_ffi_python_gpu_callback"}

_MAY_CALL = ("stablehlo.while", "stablehlo.case", "stablehlo.if", "sdy.manual_computation")


def _row_major(kind: ir.Type) -> list[int]:
    return list(reversed(range(kind.rank)))


def _layouts(layouts: Sequence[Sequence[int]]) -> ir.Attribute:
    return ir.ArrayAttr.get([_layout(tuple(layout)) for layout in layouts], context())


@functools.lru_cache(maxsize=1024)
def _layout(minor_to_major: tuple[int, ...]) -> ir.Attribute:
    index = ir.IndexType.get(context())
    kind = ranked((len(minor_to_major),), index)
    if not minor_to_major:  # The constructor takes no empty list.
        return attribute("dense<> : tensor<0xindex>")
    entries = [ir.IntegerAttr.get(index, axis) for axis in minor_to_major]
    return ir.DenseElementsAttr.get(entries, kind)
