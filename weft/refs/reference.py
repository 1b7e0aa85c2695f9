"""`Ref`: a place that holds an array and can be written, and how functions record their use of it.

A reference belongs to the trace under which it was made, and holds values of that trace. A function
that is being recorded, and uses a reference from outside, has an input for it; reads and writes are
then equations.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from weft import dtypes
from weft.arrays.array import Array
from weft.arrays.conversion import as_array
from weft.base import source as sources
from weft.core import rules
from weft.core.effects import RefType
from weft.core.jaxpr import Var
from weft.core.trace import Trace, Tracer, check_alive, current_variable
from weft.core.types import ArrayType, register_type_of, type_of, user_value
from weft.errors import Fix, LeakedTracerError, ShapeError, WeftTypeError, WeftValueError
from weft.interpreters.staging import StagingTrace, StagingTracer
from weft.ops.elementwise.convert import convert_element_type
from weft.refs import index as indexing
from weft.refs.equations import WHOLE, addupdate_p, get_p, index_with, split_index, swap_p
from weft.refs.views import RefParts

_current = current_variable.get
_NUMBERS = (bool, int, float, complex, np.generic)


def root_of(trace: Trace | None) -> StagingTrace | None:
    """The trace that records a trace's operations in the end; None if they are evaluated."""
    while trace is not None and trace.parent is not None:
        trace = trace.parent
    return trace if isinstance(trace, StagingTrace) else None


class Ref:
    """A reference to an array; made by `weft.new_ref`.

    value: the array that it holds; type: its `RefType`; owner: the trace whose values it holds, or
    None.

    `ref[...]` reads the array, `ref[i]` a part of it; `ref[...] = x`, `ref[i] = x` and `ref[i] +=
    x` write. A written value must have the dtype of the reference, or be a Python number of a kind
    that fits, and its shape must broadcast to that of the part.

    >>> total = weft.new_ref(jnp.zeros(3))
    >>> total[1] = 5.0
    >>> total[...] += 1
    >>> total
    Ref([1., 6., 1.], dtype=float32)
    """

    # `_value`: the array, None in a reference that stands for one from outside, `_tracer`.
    # `_owner`: the trace whose values it holds; `_root`: the one that records what that does.
    # `_gone`: why it cannot be used. `_sole`: nothing else refers to its buffer.
    __slots__ = (
        "__weakref__",
        "_gone",
        "_owner",
        "_root",
        "_sole",
        "_tracer",
        "_value",
        "created",
        "type",
    )

    type: RefType

    def __init__(self, value: Any, type: RefType, owner: Trace | None) -> None:
        self._value = value
        self._tracer: StagingTracer | None = None
        self._owner = owner
        self._root = root_of(owner)
        self._gone: str | None = None
        self._sole = False
        self.type = type
        self.created = sources.current()

    # ---- reading and writing ------------------------------------------------------------------

    def __getitem__(self, index: Any) -> Any:
        place = _place(self)
        if place._tracer is not None:
            return _recorded_read(place, index)
        place._sole = place._sole and index is not Ellipsis
        return indexing.read(place._value, index)

    def __setitem__(self, index: Any, value: Any) -> None:
        place = _place(self)
        value = fit_to_ref(place, value, "ref[...] = value")
        if place._tracer is not None:
            _recorded_write(place, index, value)
        else:
            _store(place, _with_part(place, place._value, index, value))

    def get(self, idx: Any = ...) -> Any:
        """The part at an index: `ref[idx]`."""
        return self[idx]

    def set(self, x: Any, idx: Any = ...) -> None:
        """Writes a part: `ref[idx] = x`."""
        self[idx] = x

    def swap(self, x: Any, idx: Any = ...) -> Any:
        """Writes a part and returns what it held."""
        place = _place(self)
        x = fit_to_ref(place, x, "swap")
        if place._tracer is None:
            before = indexing.read(place._value, idx)
            _store(place, _with_part(place, place._value, idx, x))
            return before
        return _recorded_write(place, idx, x)

    def addupdate(self, x: Any, idx: Any = ...) -> None:
        """Adds to a part; if an index names an element twice, both values are added."""
        place = _place(self)
        x = fit_to_ref(place, x, "addupdate")
        if place._tracer is None:
            _store(place, _with_part(place, place._value, idx, x, add=True))
        else:
            _recorded_add(place, idx, x)

    @property
    def at(self) -> RefParts:
        """Parts of the reference to pass on: you read and write `ref.at[i]` like `ref`."""
        return RefParts(self)

    def _fit_value(self, value: Any, operation: str) -> Any:
        """A value of the reference's dtype, which may be written into it."""
        return fit_to_ref(_place(self), value, operation)

    def _array(self) -> Any:
        """The array, where nothing is traced. It must not be kept, since it may be donated."""
        if self._gone is not None or self._root is not None:
            _place(self)
        check_alive(self._value)
        return self._value

    # ---- what it is ---------------------------------------------------------------------------

    @property
    def signature(self) -> Any:
        """The key of an executable that uses it."""
        return RefType, self._array().signature

    @property
    def aval(self) -> RefType:
        """The type of the reference."""
        return self.type

    @property
    def shape(self) -> tuple[int, ...]:
        """The length of each dimension."""
        return self.type.shape

    @property
    def dtype(self) -> Any:
        """The dtype of the elements."""
        return self.type.dtype

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return self.type.ndim

    @property
    def size(self) -> int:
        """The number of elements."""
        return self.type.size

    @property
    def weak_type(self) -> bool:
        """Whether the dtype came from a Python number and gives way to others."""
        return self.type.weak_type

    @property
    def sharding(self) -> Any:
        """The sharding of the array."""
        return contents(self).sharding

    @property
    def format(self) -> Any:
        """The layout and the sharding of the array."""
        return contents(self).format

    @property
    def committed(self) -> bool:
        """Whether the array is committed: its user chose the devices that it is on."""
        out: bool = contents(self).committed
        return out

    def unsafe_buffer_pointer(self) -> int:
        """The address of the first element."""
        out: int = contents(self).unsafe_buffer_pointer()
        return out

    def block_until_ready(self) -> Ref:
        """Waits until the array is computed, and returns the reference."""
        contents(self).block_until_ready()
        return self

    def __len__(self) -> int:
        if not self.type.shape:
            raise TypeError("len() of a reference without dimensions")
        return self.type.shape[0]

    def __iter__(self) -> Any:
        raise not_array_error(self)

    __array__ = __bool__ = __float__ = __int__ = __index__ = __complex__ = __iter__

    def __repr__(self) -> str:
        if self._gone is not None or self._tracer is not None or not isinstance(self._value, Array):
            return f"Ref<{self.type.inner!r}>"
        self._sole = False  # The text is that of a view of the memory, which stays.
        return f"Ref{repr(self._value).removeprefix('Array')}"

    def __reduce__(self) -> Any:
        return new_ref, (np.asarray(contents(self)),)

    def __copy__(self) -> Ref:
        return new_ref(contents(self))

    def __deepcopy__(self, memo: Any) -> Ref:
        return new_ref(contents(self))


def new_ref(init_val: Any, *, memory_space: Any = None, kind: str | None = None) -> Ref:
    """A reference that holds an array, or the value of a traced one.

    init_val: an array or number, also a traced one.

    You can read and write it in functions under any transformation, as an argument or closed over.
    `memory_space` and `kind` are accepted for programs that pass them; weft has one memory for
    references. Raises WeftTypeError for a value that is not an array or number.

    >>> count = weft.new_ref(0)
    >>> weft.jit(lambda: count.addupdate(1))()
    >>> count[...]
    Array(1, dtype=int32, weak_type=True)
    """
    if isinstance(init_val, Ref):
        raise not_array_error(init_val)
    value = user_value(init_val)
    type_of(value)
    if not isinstance(value, Tracer):
        value = as_array(value)
    else:
        check_alive(value)
    owner = _current(None)
    return Ref(value, RefType(type_of(value), memory_space, kind), owner)


def end(ref: Ref, why: str) -> Any:
    """Makes a reference unusable, and returns its array; `why` is a participle for messages."""
    place = _place(ref)
    if place is not ref or place._tracer is not None:
        message = f"a reference from outside is {why} in a function that is being traced"
        got = f"a reference of type {ref.type}, made at {sources.describe(ref.created)}"
        fix = Fix("read", "read it, ref[...], and end it where it was made")
        raise WeftValueError(message, got=got, wanted="a reference that the function made", fix=fix)
    value = ref._value
    ref._value, ref._gone = None, why
    return value


def new_reference(value: Any) -> Ref:
    """A new reference of the current trace."""
    return Ref(value, RefType(type_of(value)), _current(None))


def staged_ref(tracer: StagingTracer) -> Ref:
    """The reference of an input of type `Ref` in a program being recorded."""
    out = Ref(None, tracer.type, tracer._trace)  # type: ignore[arg-type]
    out._tracer = tracer
    return out


def with_staged_refs(values: Sequence[Any]) -> list[Any]:
    """The inputs of a program being recorded, with references for inputs of type `Ref`."""
    for x in values:
        if type(x.type) is RefType:
            return [staged_ref(x) if type(x.type) is RefType else x for x in values]
    return [*values]


def contents(ref: Ref) -> Any:
    """The array of a reference."""
    return ref[...]


# ---- which reference stands for one under the current trace --------------------------------------


def _place(ref: Ref) -> Ref:
    """The reference that holds the values of `ref` under the current trace."""
    if ref._gone is not None:
        raise _gone(ref, ref._gone)
    trace = _current(None)
    root = root_of(trace) if trace is not None else None
    if ref._root is root:
        if ref._value is not None:
            check_alive(ref._value)
        return ref
    if root is None or (ref._root is not None and not ref._root.alive):
        raise _leaked_error(ref)
    known = root.references.get(id(ref))
    if known is None:
        var = Var(ref.type)  # type: ignore[arg-type]
        root.consts[id(ref)] = (var, ref)
        known = root.references[id(ref)] = staged_ref(StagingTracer(root, var, sources.current()))
    out: Ref = known
    return out


def _leaked_error(ref: Ref) -> LeakedTracerError:
    of = ref._root if ref._root is not None else ref._owner
    name = of.name if of is not None else "a transformation"
    message = f"a reference made in {name} is used after it"
    got = f"a reference of type {ref.type}, made at {sources.describe(ref.created)}"
    fix = Fix("return_value", "return its array from the function: weft.freeze(ref)")
    wanted = "references that are made outside, and passed in or closed over"
    if ref._tracer is not None:
        message = f"a reference that a function under {name} was given is used after it was traced"
        text = "where a derivative's rule uses it, differentiate inside of what is traced: "
        fix = Fix("order", f"{text}jit(grad(f)), not grad(jit(f))")
    return LeakedTracerError(message, got=got, wanted=wanted, fix=fix)


def _gone(ref: Ref, why: str) -> WeftValueError:
    message = f"a reference is used after it was {why}"
    got = f"a reference of type {ref.type}, made at {sources.describe(ref.created)}"
    if why == "passed":
        message = "a reference is used where it is passed as an argument as well"
        fix = Fix("argument", "use the function's argument only")
    else:
        fix = Fix("keep", "use the array that freeze returned, or make a new reference of it")
    return WeftValueError(message, operation="Ref", got=got, wanted="a live reference", fix=fix)


# ---- what is written -----------------------------------------------------------------------------


def fit_to_ref(ref: Ref, value: Any, operation: str) -> Any:
    """A value in the dtype of a reference, which may be written into it. Raises WeftValueError for
    another dtype, and for a value of a transformation inside that of the reference."""
    if isinstance(value, Ref):
        raise not_array_error(value)
    value = user_value(value)
    of, wanted = type_of(value), ref.type.inner
    if isinstance(value, np.ndarray):
        value = as_array(value)
    _check_visible(ref, value, operation)
    if of.dtype != wanted.dtype:
        promoted, _ = dtypes.promote((of.dtype, True), (wanted.dtype, False))
        if not of.weak_type or promoted != wanted.dtype:
            name = dtypes.short_name(wanted.dtype)
            message = f"a reference to {name} holds no {dtypes.short_name(of.dtype)}"
            fix = Fix("convert", "convert what is written: value.astype(ref.dtype)")
            raise WeftValueError(
                message, operation=operation, got=str(of), wanted=f"a value of {name}", fix=fix
            )
    if isinstance(value, _NUMBERS):
        value = dtypes.number(value, wanted.dtype, operation=operation)
        return value.item() if wanted.weak_type else value
    if of.dtype != wanted.dtype or of.weak_type != wanted.weak_type:
        value = convert_element_type(value, wanted.dtype, wanted.weak_type)
    return value


def _check_visible(ref: Ref, value: Any, operation: str) -> None:
    """Raises for a value of a transformation inside that of the reference."""
    if not isinstance(value, Tracer):
        return
    check_alive(value)
    trace = ref._owner
    while trace is not None:
        # A derivative's rule works on tangents, which are recorded beside the trace it runs under.
        if trace is value._trace or getattr(trace, "linear", None) is value._trace:
            return
        # A jaxpr closes over values of the traces around it. Where these must not be written into
        # a reference from outside, the jaxpr's results cannot be written back into that.
        trace = trace.around if type(trace) is StagingTrace else trace.parent
    by = value._trace.name
    kinds = {"vmap": "a mapped", "jvp": "a differentiated"}
    how = kinds.get(by) or ("a differentiated" if hasattr(value, "tangent") else "a traced")
    message = f"{how} value is written into a reference that {by} knows nothing of"
    got = f"{value.describe()}, and a reference made at {sources.describe(ref.created)}"
    text = f"pass the reference to the function under {by} as an argument"
    if how == "a differentiated":
        text = (
            "write weft.lax.stop_gradient(value), or make the reference in the differentiated "
            "function and return its array"
        )
    wanted = "a reference that is made inside, or passed as a mapped argument"
    fix = Fix("pass_reference", text, {"transformation": by})
    raise WeftValueError(message, operation=operation, got=got, wanted=wanted, fix=fix)


def _with_part(ref: Ref, whole: Any, index: Any, value: Any, add: bool = False) -> Any:
    """The array with a part written or added to."""
    shape = _shape(ref, index)
    of = type_of(value)
    if shape is not None and not _broadcasts(of.shape, shape):
        message = "what is written does not have the shape of the part of the reference"
        fix = Fix("shape", f"write an array of shape {shape}", {"shape": shape})
        operation = "addupdate" if add else "ref[...] = value"
        raise ShapeError(message, operation=operation, got=str(of), wanted=str(shape), fix=fix)
    whole_part = index is Ellipsis or (type(index) is tuple and not index)
    if whole_part and of.shape == ref.shape:
        return whole + value if add else value
    return indexing.update_at(whole, index, value, "add" if add else "set")


def _shape(ref: Ref, index: Any) -> tuple[int, ...] | None:
    """The shape of a part of a reference; None if it depends on the value of the index."""
    if index is Ellipsis:
        return ref.shape
    for part in index if isinstance(index, tuple) else (index,):
        if isinstance(part, (list, np.ndarray, Array, Tracer)) and np.ndim(part) + 1:
            if isinstance(part, list) or part.dtype == np.bool_:
                return None
    return indexing.indexed_shape(ref.shape, index)


def _broadcasts(shape: tuple[int, ...], wanted: tuple[int, ...]) -> bool:
    if len(shape) > len(wanted):
        return False
    return all(a == b or a == 1 for a, b in zip(shape[::-1], wanted[::-1], strict=False))


def _store(ref: Ref, value: Any) -> None:
    """Sets the array of a reference that holds one."""
    of: ArrayType = type_of(value)
    wanted = ref.type.inner
    if of is not wanted and of.weak_type != wanted.weak_type:
        value = convert_element_type(value, wanted.dtype, wanted.weak_type)
    _check_visible(ref, value, "ref[...] = value")
    ref._value = value if isinstance(value, (Array, Tracer)) else as_array(value)
    ref._sole = False


# ---- equations -----------------------------------------------------------------------------------


def _operands(ref: Ref, index: Any) -> tuple[tuple[Any, ...], list[Any]] | None:
    """The index as data and operands, if an equation of the recording trace can hold it."""
    if indexing.has_windows(index):
        indexing.windows(index, ref.shape)  # for its errors
    split = split_index(index)
    if split is None or any(x._trace is not ref._owner for x in split[1]):
        return None
    return split


def _bind(ref: Ref, primitive: Any, *args: Any, index: Any) -> Any:
    trace = ref._owner
    assert trace is not None
    return trace.process_primitive(primitive, (ref._tracer, *args), {"index": index})


def _recorded_read(ref: Ref, index: Any) -> Any:
    split = _operands(ref, index)
    if split is None:
        return indexing.read(_bind(ref, get_p, index=WHOLE), index)
    return _bind(ref, get_p, *split[1], index=split[0])


def _recorded_write(ref: Ref, index: Any, value: Any) -> Any:
    """Writes a part, and returns the old one."""
    split = _operands(ref, index)
    if split is not None and type_of(value).shape == _shape(ref, index):
        return _bind(ref, swap_p, value, *split[1], index=split[0])
    whole = _bind(ref, get_p, index=WHOLE)
    new = _with_part(ref, whole, index, value)
    _check_visible(ref, new, "ref[...] = value")
    _bind(ref, swap_p, new, index=WHOLE)
    return indexing.read(whole, index)


def _recorded_add(ref: Ref, index: Any, value: Any) -> None:
    split = _operands(ref, index)
    if split is not None and type_of(value).shape == _shape(ref, index):
        _bind(ref, addupdate_p, value, *split[1], index=split[0])
        return
    new = _with_part(ref, _bind(ref, get_p, index=WHOLE), index, value, add=True)
    _check_visible(ref, new, "addupdate")
    _bind(ref, swap_p, new, index=WHOLE)


# Recorded programs are evaluated on references as Python is.


def get_rebind(ref: Ref, *operands: Any, index: tuple[Any, ...]) -> Any:
    return ref[index_with(index, operands)]


def swap_rebind(ref: Ref, value: Any, *operands: Any, index: tuple[Any, ...]) -> Any:
    return ref.swap(value, index_with(index, operands))


def addupdate_rebind(ref: Ref, value: Any, *operands: Any, index: tuple[Any, ...]) -> list[Any]:
    ref.addupdate(value, index_with(index, operands))
    return []


rules.rebind.register(get_p, get_rebind)
rules.rebind.register(swap_p, swap_rebind)
rules.rebind.register(addupdate_p, addupdate_rebind)


def not_array_error(ref: Any) -> WeftTypeError:
    """The error for a reference in place of an array."""
    message = "a reference is no array"
    got = f"a reference of type {ref.type}, made at {sources.describe(ref.created)}"
    fix = Fix("read", "read it: ref[...]")
    return WeftTypeError(
        message, operation=None, got=got, wanted="the array that it holds", fix=fix
    )


def _no_type(ref: Ref) -> ArrayType:
    raise not_array_error(ref)


register_type_of(Ref, _no_type)

_ARITHMETIC = "add sub mul truediv floordiv mod pow matmul and or xor lshift rshift"


def _refuse(self: Ref, *_: object) -> Any:
    raise not_array_error(self)


for _name in _ARITHMETIC.split():
    setattr(Ref, f"__{_name}__", _refuse)
    setattr(Ref, f"__r{_name}__", _refuse)
for _name in "neg pos abs invert lt le gt ge".split():
    setattr(Ref, f"__{_name}__", _refuse)
