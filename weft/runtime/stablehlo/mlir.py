"""Building MLIR: the context, types, locations, operations, functions and modules.

There is one MLIR context in a process, made at first use. Types, attributes and locations belong
to a context and are unique in it, so one context is what allows them to be cached by their Python
description. The interpreter's lock guards it: code that releases that lock, such as the compiler,
must be given bytecode or a module of another context (`private_copy`). Operations are created
generically (`ir.Operation.create` with the result types given): it costs under a microsecond, a
third of what the generated classes with type inference cost. Insertion point and location are
MLIR's own thread-local ones, set by `with` blocks, so that operations made by an outside rule
with the generated classes (`hlo.AddOp(x, y)`) are emitted at the same point. See the MLIR
language reference, https://mlir.llvm.org/docs/LangRef/.

The MLIR dialects that weft emits: the compiled parts of jaxlib's bindings of them.

They have the types, the attributes and a dialect's registration. jaxlib also generates a Python
class for every operation; weft creates operations by name (see `runtime.mlir`). Those classes are
thousands of objects, slow to import, and every collection of the process walks over them, so they
are left to the bindings: these import them, dialect by dialect, when they first make an attribute
of one. A module without special functions uses none of CHLO, one for one device none of Shardy.

An import that compiled code asks for ends the process if it is interrupted. So the classes are
imported, on a thread that no signal reaches, just before the bindings would.
"""

from __future__ import annotations

import functools
import io
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol

import ml_dtypes
import numpy as np
from jaxlib.mlir import ir
from jaxlib.mlir._mlir_libs import _chlo, _jax_mlir_ext, _sdy, _stablehlo
from jaxlib.mlir.dialects import builtin  # noqa: F401  # every module needs it
from jaxlib.mlir.passmanager import PassManager

from weft.errors import DTypeError, Fix, WeftError, WeftTypeError
from weft.runtime.jaxlib.lazy import import_library

if TYPE_CHECKING:
    from numpy.typing import DTypeLike

__all__ = [
    "ArrayTypeLike", "Attributes", "Function", "Module", "Region", "array_type_to_ir", "attribute",
    "bytecode", "bytecode_without_locations", "context", "dtype_of", "element_type", "fill", "ir",
    "location", "op", "op1", "parse", "private_copy", "ranked", "operation_error", "tensor_type",
    "token_type", "unknown_location", "verify",
]  # fmt: skip


def import_operations(dialect: str) -> None:
    """Imports the classes of a dialect's operations, as the bindings are about to do.

    Args:
        dialect: The dialect's name in MLIR, such as "stablehlo".
    """
    if dialect in ("chlo", "sdy", "stablehlo"):
        import_library(f"jaxlib.mlir.dialects.{dialect}")


class _Dialect:
    """The compiled part of one dialect."""

    def __init__(self, name: str, compiled: Any) -> None:
        self._name = name
        self.register_dialect = compiled.register_dialect
        self._compiled = compiled

    def __getattr__(self, name: str) -> Any:
        import_operations(self._name)
        value = self.__dict__[name] = getattr(self._compiled, name)
        return value


chlo: Any = _Dialect("chlo", _chlo)
sdy: Any = _Dialect("sdy", _sdy)
stablehlo: Any = _Dialect("stablehlo", _stablehlo)


Attributes = Mapping[str, ir.Attribute]
Region = tuple[Sequence[ir.Type], Callable[[list[ir.Value]], Sequence[ir.Value]]]
"""The types of a region's arguments, and what emits its body: from arguments to results."""


class ArrayTypeLike(Protocol):
    """The attributes of an array type that the runtime reads."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    weak_type: bool


# ---- context -------------------------------------------------------------------------------------

_context: ir.Context | None = None
_context_lock = threading.Lock()


def context() -> ir.Context:
    """The process's MLIR context, with the dialects that weft emits loaded."""
    return _context or _make_context()


def _make_context() -> ir.Context:
    global _context
    with _context_lock:
        if _context is None:
            _context = _new_context()
    return _context


def _new_context() -> ir.Context:
    registry = ir.DialectRegistry()
    _jax_mlir_ext.register_dialects(registry)
    out = ir.Context()
    out.append_dialect_registry(registry)
    out.load_all_available_dialects()
    for dialect in (stablehlo, chlo, sdy):
        dialect.register_dialect(out)
    out.enable_multithreading(False)
    return out


# ---- types ---------------------------------------------------------------------------------------

_FLOATS: dict[np.dtype[Any], str] = {
    np.dtype(np.float16): "F16Type",
    np.dtype(np.float32): "F32Type",
    np.dtype(np.float64): "F64Type",
    np.dtype(ml_dtypes.bfloat16): "BF16Type",
    np.dtype(ml_dtypes.float8_e3m4): "Float8E3M4Type",
    np.dtype(ml_dtypes.float8_e4m3): "Float8E4M3Type",
    np.dtype(ml_dtypes.float8_e4m3b11fnuz): "Float8E4M3B11FNUZType",
    np.dtype(ml_dtypes.float8_e4m3fn): "Float8E4M3FNType",
    np.dtype(ml_dtypes.float8_e4m3fnuz): "Float8E4M3FNUZType",
    np.dtype(ml_dtypes.float8_e5m2): "Float8E5M2Type",
    np.dtype(ml_dtypes.float8_e5m2fnuz): "Float8E5M2FNUZType",
    np.dtype(ml_dtypes.float8_e8m0fnu): "Float8E8M0FNUType",
    np.dtype(ml_dtypes.float4_e2m1fn): "Float4E2M1FNType",
}
_NARROW_INTEGERS: dict[np.dtype[Any], str] = {
    np.dtype(ml_dtypes.int2): "i2",
    np.dtype(ml_dtypes.int4): "i4",
    np.dtype(ml_dtypes.uint2): "ui2",
    np.dtype(ml_dtypes.uint4): "ui4",
}

_element_types: dict[Any, ir.Type] = {}
_dtypes: dict[ir.Type, np.dtype[Any]] = {}
_tensor_types: dict[tuple[Any, Any], ir.Type] = {}
_array_types: dict[Any, ir.Type] = {}


def element_type(dtype: DTypeLike) -> ir.Type:
    """The MLIR type of one element: `f32`, `bf16`, `i1` for bool, `ui8`, `complex<f32>`, …

    Raises DTypeError for a dtype that XLA has no type for.
    """
    out = _element_types.get(dtype)
    if out is None:
        out = _make_element_type(np.dtype(dtype))
        if np.dtype(dtype).itemsize:  # Tangents of integers (float0) stand as booleans.
            _dtypes.setdefault(out, np.dtype(dtype))
        _element_types[dtype] = out
    return out


def _make_element_type(dtype: np.dtype[Any]) -> ir.Type:
    with context():
        if dtype in _FLOATS:
            return getattr(ir, _FLOATS[dtype]).get()
        if dtype in _NARROW_INTEGERS:
            return ir.Type.parse(_NARROW_INTEGERS[dtype])
        if dtype.kind == "b" or not dtype.itemsize:
            return ir.IntegerType.get_signless(1)
        if dtype.kind == "i":
            return ir.IntegerType.get_signless(8 * dtype.itemsize)
        if dtype.kind == "u":
            return ir.IntegerType.get_unsigned(8 * dtype.itemsize)
        if dtype in (np.dtype(np.complex64), np.dtype(np.complex128)):
            part = ir.F32Type if dtype.itemsize == 8 else ir.F64Type
            return ir.ComplexType.get(part.get())
    wanted = "a boolean, integer, floating-point or complex dtype of a width that XLA supports"
    raise DTypeError("XLA has no element type for this dtype", got=dtype, wanted=wanted)


def dtype_of(element: ir.Type) -> np.dtype[Any]:
    """The NumPy dtype of an MLIR element type (the inverse of `element_type`).

    Args:
        element: The MLIR element type.
    """
    out = _dtypes.get(element)
    if out is None:
        kinds = ("?", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "c8", "c16")
        for dtype in (*_FLOATS, *_NARROW_INTEGERS, *map(np.dtype, kinds)):
            element_type(dtype)
        out = _dtypes[element]
    return out


def ranked(shape: Sequence[int], element: ir.Type) -> ir.Type:
    """The tensor type of a shape and an MLIR element type.

    Args:
        element: The MLIR type of one element.
    """
    key = (tuple(shape), element)
    out = _tensor_types.get(key)
    if out is None:
        made = ir.RankedTensorType.get(key[0], element, loc=unknown_location())
        out = _tensor_types[key] = made
    return out


def tensor_type(shape: Sequence[int], dtype: DTypeLike) -> ir.Type:
    """The tensor type of a shape and a NumPy dtype."""
    return ranked(shape, element_type(dtype))


def array_type_to_ir(array_type: ArrayTypeLike) -> ir.Type:
    """The tensor type of an array type (which is hash-consed, so the look-up is by identity).

    Args:
        array_type: An `ArrayType`, or anything with `shape` and `dtype`.
    """
    out = _array_types.get(array_type)
    if out is None:
        out = tensor_type(array_type.shape, array_type.dtype)
        _array_types[array_type] = out
    return out


@functools.cache
def token_type() -> ir.Type:
    """The type of a token, which orders operations with side effects."""
    return stablehlo.TokenType.get(context())


# ---- locations -----------------------------------------------------------------------------------


@functools.cache
def unknown_location() -> ir.Location:
    """The location of an operation that no line of the user's program made."""
    return ir.Location.unknown(context())


@functools.lru_cache(maxsize=65536)
def location(file: str, line: int, function: str, name_stack: str = "") -> ir.Location:
    """A line of the user's program, and the stack of transformations and scopes it runs in.

    XLA shows the name stack as `op_name`, and file, line and function as the source of the
    operation, in the text of an executable and in profiles.

    Args:
        file: The path of the file.
        line: The line in the file, counted from 1.
        function: The name of the Python function that holds the line.
        name_stack: Names of transformations and scopes, joined by slashes.
    """
    place = ir.Location.file(file, line, 0, context())
    place = ir.Location.name(function, place, context())
    return ir.Location.name(name_stack, place, context()) if name_stack else place


@functools.lru_cache(maxsize=4096)
def attribute(text: str) -> ir.Attribute:
    """An attribute from its text, where MLIR has no constructor."""
    import_operations(text.lstrip("#").partition(".")[0])
    return ir.Attribute.parse(text, context())


# ---- operations ----------------------------------------------------------------------------------

_create = ir.Operation.create


def op1(
    name: str,
    operands: Sequence[ir.Value],
    result_type: ir.Type,
    attributes: Attributes | None = None,
) -> ir.Value:
    """Emits an operation with one result at the current insertion point.

    Args:
        name: The operation's full name, such as "stablehlo.add".
        result_type: The MLIR type of the result.
        attributes: The operation's attributes, by name.
    """
    try:
        return _create(name, (result_type,), operands, attributes).result
    except TypeError as error:
        raise operation_error(name, operands, error) from None


def op(
    name: str,
    operands: Sequence[ir.Value],
    result_types: Sequence[ir.Type],
    attributes: Attributes | None = None,
    regions: Sequence[Region] = (),
) -> list[ir.Value]:
    """Emits an operation, with the bodies of its regions, at the current insertion point.

    Args:
        name: The operation's full name, such as "stablehlo.add".
        attributes: The operation's attributes, by name.
        regions: For each region the types of its arguments, and what emits its body.
    """
    try:
        made = _create(name, result_types, operands, attributes, None, len(regions))
    except TypeError as error:
        raise operation_error(name, operands, error) from None
    for position, (argument_types, body) in enumerate(regions):
        fill(made.regions[position], argument_types, body, "stablehlo.return")
    return list(made.results)


def fill(
    region: ir.Region,
    argument_types: Sequence[ir.Type],
    body: Callable[[list[ir.Value]], Sequence[ir.Value]],
    terminator: str,
) -> None:
    """Gives a region its one block: the body's operations and the terminator with its results."""
    block = ir.Block.create_at_start(
        region, argument_types, [unknown_location()] * len(argument_types)
    )
    with ir.InsertionPoint(block):
        results = body(list(block.arguments))
        try:
            _create(terminator, (), results)
        except TypeError as error:
            raise operation_error(
                terminator, results, error, f" in the body of {region.owner.name}"
            ) from None


def operation_error(name: str, operands: Any, error: Exception, where: str = "") -> Exception:
    """The error for an operation that was not created: `error`, unless operands are to blame."""
    if isinstance(operands, ir.Value):
        wanted, got, fix = "a list of MLIR values", "one value, not in a list", "write [value]"
    else:
        wrong = [value for value in operands or () if not isinstance(value, ir.Value)]
        if not wrong:
            return error
        wanted, got = "MLIR values", f"{wrong[0]!r:.80} of class {type(wrong[0]).__name__}"
        fix = "make a number or an array a value with constant(it, shape, dtype)"
        if isinstance(wrong[0], (list, tuple)):
            got, fix = f"a {type(wrong[0]).__name__}", "take the values out of the list"
    message = f"{name}{where} takes {wanted}"
    return WeftTypeError(
        message, operation=name, got=got, wanted=wanted, fix=Fix("value", fix, {"operation": name})
    )


# ---- functions and modules -----------------------------------------------------------------------


class Function:
    """One function of a module, open for emission inside a `with` block.

    The block sets context, insertion point and an unknown location, returns the function itself
    (whose `arguments` are the parameters), and has to end with `return_`.

    Args:
        name: The function's symbol in the module.
        operation: The `func.func` operation, whose region is empty so far.
        argument_types: The MLIR types of the parameters.
    """

    __slots__ = ("_entered", "_ip", "arguments", "name", "operation")

    def __init__(self, name: str, operation: ir.Operation, argument_types: list[ir.Type]) -> None:
        self.name = name
        self.operation = operation
        region = operation.regions[0]
        block = ir.Block.create_at_start(
            region, argument_types, [unknown_location()] * len(argument_types)
        )
        self.arguments: list[ir.Value] = list(block.arguments)
        self._ip = ir.InsertionPoint(block)
        self._entered: list[Any] = []

    def __enter__(self) -> Function:
        self._entered = [unknown_location(), self._ip]
        for manager in self._entered:
            manager.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        while self._entered:
            self._entered.pop().__exit__(kind, error, traceback)

    def return_(self, values: Sequence[ir.Value]) -> None:
        """Ends the function with its results."""
        _create("func.return", (), values)


class Module:
    """A module under construction: functions under unique names, and the module's attributes.

    `ir` is the MLIR module, ready to be compiled once every function has returned.

    Args:
        name: The module's symbol.
        attributes: Further attributes of the module, by name.
        num_partitions: How many devices run parts of the module.
    """

    __slots__ = ("_symbols", "ir")

    def __init__(
        self, name: str = "module", attributes: Attributes | None = None, *, num_partitions: int = 1
    ) -> None:
        self.ir = ir.Module.create(unknown_location())
        self._symbols: set[str] = set()
        own = self.ir.operation.attributes
        with context():
            own["sym_name"] = ir.StringAttr.get(_symbol_text(name))
            count = ir.IntegerType.get_signless(32)
            own["mhlo.num_partitions"] = ir.IntegerAttr.get(count, num_partitions)
            own["mhlo.num_replicas"] = ir.IntegerAttr.get(count, 1)
        for key, value in (attributes or {}).items():
            own[key] = value

    def symbol(self, name: str) -> str:
        """Reserves `name`, made a legal symbol and followed by a number if it is taken."""
        name = _symbol_text(name)
        out, count = name, 0
        while out in self._symbols:
            out, count = f"{name}_{count}", count + 1
        self._symbols.add(out)
        return out

    def function(
        self,
        name: str,
        in_types: Iterable[ir.Type],
        out_types: Iterable[ir.Type],
        *,
        public: bool = False,
        arg_attributes: Sequence[Attributes | None] | None = None,
        result_attributes: Sequence[Attributes | None] | None = None,
    ) -> Function:
        """Starts a function; its name is made unique (read it from the result's `name`).

        The attributes are one dictionary (or None) per argument or result, such as
        `{"tf.aliasing_output": …}`. The entry point of a module is called "main" and is public.
        """
        symbol = self.symbol(name)
        ins = list(in_types)
        with context():
            own: dict[str, ir.Attribute] = {
                "sym_name": ir.StringAttr.get(symbol),
                "sym_visibility": ir.StringAttr.get("public" if public else "private"),
                "function_type": ir.TypeAttr.get(ir.FunctionType.get(ins, list(out_types))),
            }
            for key, given in (("arg_attrs", arg_attributes), ("res_attrs", result_attributes)):
                if given is not None and any(given):
                    dictionaries = [ir.DictAttr.get(dict(entry or {})) for entry in given]
                    own[key] = ir.ArrayAttr.get(dictionaries)
            made = _create(
                "func.func",
                (),
                (),
                own,
                None,
                1,
                unknown_location(),
                ir.InsertionPoint(self.ir.body),
            )
        return Function(symbol, made, ins)

    def insertion_point(self) -> ir.InsertionPoint:
        """The end of the module's body, for what stands beside functions (such as `sdy.mesh`)."""
        return ir.InsertionPoint(self.ir.body)

    def text(self, debug_info: bool = False) -> str:
        """The module as StableHLO text, with locations if asked for."""
        return self.ir.operation.get_asm(enable_debug_info=debug_info)

    def bytecode(self) -> bytes:
        """The module as MLIR bytecode (for the same release of jaxlib only)."""
        return bytecode(self.ir)

    def verify(self) -> None:
        """Checks the module by its dialects' rules; WeftError names the operation at fault."""
        verify(self.ir)


def verify(module: ir.Module) -> None:
    """Raises WeftError with the offending operation and its line if the module breaks a rule.

    Args:
        module: The MLIR module to check.
    """
    try:
        module.operation.verify()
    except ir.MLIRError as error:
        for diagnostic in error.error_diagnostics:
            message = f"the generated program is invalid: {diagnostic.message}"
            got = "\n".join(str(note.message) for note in diagnostic.notes) or None
            raise WeftError(
                message, operation=None, got=got, where=str(diagnostic.location)
            ) from error
        raise


def bytecode(module: ir.Module) -> bytes:
    """A module as MLIR bytecode (for the same release of jaxlib only), locations included."""
    buffer = io.BytesIO()
    module.operation.write_bytecode(buffer)
    return buffer.getvalue()


def bytecode_without_locations(module: ir.Module) -> bytes:
    """A module as MLIR bytecode without the locations of its operations."""
    copy = module.operation.clone(ip=False)  # not into a module that is being written
    # A pass does not release the interpreter's lock, which guards the context.
    _strip_locations().run(copy)
    buffer = io.BytesIO()
    copy.write_bytecode(buffer)
    return buffer.getvalue()


@functools.cache
def _strip_locations() -> Any:
    with context():
        return PassManager.parse("builtin.module(strip-debuginfo)")


def private_copy(module: ir.Module) -> ir.Module:
    """A copy in a new context, which another thread may work on."""
    return ir.Module.parse(bytecode(module), _new_context())


def parse(text: str | bytes) -> ir.Module:
    """A module from StableHLO text or bytecode.

    Args:
        text: The module's text, or its bytecode.
    """
    return ir.Module.parse(text, context())


_SYMBOL_CHARACTERS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-$")


def _symbol_text(name: str) -> str:
    legal = "".join(c if c in _SYMBOL_CHARACTERS else "_" for c in name)
    return legal if legal and not legal[0].isdigit() else f"_{legal}"
