"""Primitives declared as a whole, from a Python body or from a type rule and a lowering.

`DefinedPrimitive` holds the declaration and, for a body, its program for given operand types. The
rules that follow from it are in `defined_rules` (derivatives, lowering) and `defined_maps` (vmap).
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

from weft import config
from weft import source as sources
from weft.core.axes import with_environment
from weft.core.jaxpr import Jaxpr
from weft.core.primitive import Primitive
from weft.core.trace import Tracer
from weft.core.types import ArrayType, type_of
from weft.errors import Fix, ShapeError, WeftTypeError, WeftValueError
from weft.ops.constants import embedded
from weft.ops.declare import join_varying
from weft.ops.shape import broadcast_in_dim
from weft.transforms.staging import trace_to_jaxpr

__all__ = ["DefinedPrimitive", "Groups", "common_shape", "repeated", "unvarying"]

Groups = tuple[tuple[int, ...], ...]
_LIMIT = 4096


def unvarying(type: ArrayType) -> ArrayType:
    """The type of a value that is the same on all devices."""
    if type.varying or type.unreduced:
        return type.update(varying=frozenset(), unreduced=frozenset())
    return type


def common_shape(name: str, types: Sequence[ArrayType]) -> tuple[int, ...]:
    """The shape of elementwise operands, of which some may have no dimensions.

    Raises ShapeError where two shapes differ.
    """
    shape: tuple[int, ...] = ()
    for type in types:
        if type.shape and shape and type.shape != shape:
            raise ShapeError(
                f"{name} takes operands of one shape (or without dimensions)",
                operation=name,
                got=", ".join(map(str, types)),
                wanted="equal shapes",
                fix=Fix("broadcast", "broadcast them first: weft.numpy.broadcast_arrays", {}),
            )
        shape = shape or type.shape
    return shape


def repeated(value: Any, shape: tuple[int, ...]) -> Any:
    """A value without dimensions repeated for every element; any other value itself."""
    return value if type_of(value).shape == shape else broadcast_in_dim(value, shape, ())


class DefinedPrimitive(Primitive):
    """A primitive with the declaration that its rules are derived from.

    It can be called like a function. `derived` names the kinds of rules that were derived: one that
    is registered takes the place of the derived one. What depends on settings (the default width of
    numbers in a body) is remembered apart for each of them.
    """

    __slots__ = (
        "_eager_caches",
        "_programs",
        "_type_caches",
        "body",
        "derived",
        "elementwise",
        "linear",
        "mapped",
    )

    def __init__(
        self,
        name: str,
        *,
        body: Callable[..., Any] | None = None,
        linear: Groups = (),
        multiple_results: bool = False,
        elementwise: bool = False,
    ) -> None:
        self._type_caches: dict[Any, dict[Any, Any]] = {}
        self._eager_caches: dict[Any, dict[Any, Any]] = {}
        self._programs: dict[Any, Jaxpr] = {}
        self.body = body
        self.linear = linear
        self.elementwise = elementwise
        self.derived: set[str] = set()
        # The primitive that applies this one to each element of a mapped axis, once it was needed.
        self.mapped: Any = None
        super().__init__(name, multiple_results)

    @property
    def type_cache(self) -> dict[Any, Any]:
        """The results of the type rule under the settings in force."""
        return self._type_caches.setdefault(config.settings(), {})

    @type_cache.setter
    def type_cache(self, value: dict[Any, Any]) -> None:
        self._type_caches = {config.settings(): value}

    @property
    def eager_cache(self) -> dict[Any, Any]:
        """The compiled one-operation programs under the settings in force."""
        return self._eager_caches.setdefault(config.settings(), {})

    @eager_cache.setter
    def eager_cache(self, value: dict[Any, Any]) -> None:
        self._eager_caches = {config.settings(): value}

    def __call__(self, *args: Any, **params: Any) -> Any:
        """Applies the primitive: arrays are positional, parameters are keywords."""
        return self.bind(*args, **params)

    def bind(self, *args: Any, **params: Any) -> Any:
        """Applies the primitive: arrays are positional, parameters are keywords.

        Raises WeftTypeError for an operand that is no array and for a parameter without a hash.
        """
        for i, value in enumerate(args):
            if value is None or isinstance(value, (list, tuple, dict, str)):
                raise self._no_array(i, value)
        for key, value in params.items():
            try:
                hash(value)
            except TypeError:
                raise self._no_parameter(key, value) from None
        return super().bind(*args, **params)

    def _no_array(self, place: int, value: Any) -> WeftTypeError:
        return WeftTypeError(
            f"{self.name}: operand {place} is no array",
            operation=self.name,
            got=f"{value!r:.80} of class {type(value).__name__}",
            wanted="arrays as positional arguments; a primitive takes no trees",
            fix=Fix(
                "flatten",
                "pass the leaves one by one: p(*weft.tree.leaves(tree)), and what is no array as "
                "a keyword",
                {"operand": place},
            ),
        )

    def _no_parameter(self, key: str, value: Any) -> WeftTypeError:
        array = hasattr(value, "shape")
        fix = f"pass a tuple, or another value with a hash, as {key}"
        if array:
            fix = f"pass {key} as an operand (positional) instead"
        if isinstance(value, Tracer):
            fix += f"; a setting is kept from being traced by jit(..., static_argnames={key!r})"
        return WeftTypeError(
            f"{self.name}: the parameter {key!r} cannot be hashed",
            operation=self.name,
            got=f"{value!r:.80} of class {type(value).__name__}",
            wanted="hashable parameters, which programs are remembered by",
            fix=Fix(
                "positional" if array else "hashable",
                fix,
                {"parameter": key},
            ),
        )

    # -- the program of a body --------------------------------------------------------------------

    def program(self, types: Sequence[ArrayType], params: dict[str, Any]) -> Jaxpr:
        """The body's program for operands of these types, recorded once."""
        own = tuple(map(unvarying, types))
        key = (config.settings(), own, tuple(sorted(params.items(), key=_first)))
        found = self._programs.get(key)
        if found is None:
            # Axis names of the place where it is first applied are nothing to the body.
            with with_environment(()), sources.user_frames(), sources.new_program():
                found = self.record(own, params)
            if len(self._programs) >= _LIMIT:
                self._programs.clear()
            self._programs[key] = found
        return found

    def record(self, types: Sequence[ArrayType], params: dict[str, Any]) -> Jaxpr:
        """Records the body."""
        body = self.body
        assert body is not None
        shape = common_shape(self.name, types) if self.elementwise else None

        def function(*values: Any) -> Sequence[Any]:
            if shape is not None:
                values = tuple(repeated(x, shape) for x in values)
            return self._results(body(*values, **params), shape)

        try:
            jaxpr, consts = trace_to_jaxpr(
                function, types, transformation="define_primitive", name=self.name
            )
            return self._plain(embedded(jaxpr, consts))
        except Exception as error:
            self._check_arguments(body, types, params)
            error.add_note(f"while recording the body of the primitive {self.name!r}")
            raise

    def _results(self, out: Any, shape: tuple[int, ...] | None) -> Sequence[Any]:
        if self.multiple_results:
            if not isinstance(out, (tuple, list)):
                raise self._wrong_result(out, "a tuple or list of arrays", True)
            outs = list(out)
        else:
            if isinstance(out, (tuple, list, dict)) or out is None:
                raise self._wrong_result(out, "one array", False)
            outs = [out]
        for value in outs:
            if value is None or isinstance(value, (tuple, list, dict, str)):
                raise self._wrong_result(out, "arrays, not trees of them", True)
        return outs if shape is None else [repeated(x, shape) for x in outs]

    def _wrong_result(self, out: Any, wanted: str, several: bool) -> WeftTypeError:
        text = (
            "return a flat tuple of arrays"
            if several
            else "declare multiple_results=True, or return one array"
        )
        return WeftTypeError(
            f"the body of the primitive {self.name!r} returns {type(out).__name__}",
            operation=self.name,
            got=f"{out!r:.100} of class {type(out).__name__}",
            wanted=wanted,
            fix=Fix("results", text, {"multiple_results": not several}),
        )

    def _check_arguments(self, body: Any, types: Sequence[Any], params: dict[str, Any]) -> None:
        """Raises WeftTypeError where the body does not take these operands and parameters."""
        try:
            signature = inspect.signature(body)
        except (TypeError, ValueError):
            return
        try:
            signature.bind(*types, **params)
        except TypeError as error:
            raise WeftTypeError(
                f"the body of the primitive {self.name!r} does not take these arguments: {error}",
                operation=self.name,
                got=f"{len(types)} operands, parameters {sorted(params)}",
                wanted=f"{self.name}{signature}",
                fix=Fix("arguments", f"call it as {self.name}{signature}", {}),
            ) from None

    def _plain(self, jaxpr: Jaxpr) -> Jaxpr:
        """The program itself. Raises WeftValueError where it does more than compute results."""
        if jaxpr.effects:
            found = ", ".join(sorted(map(str, jaxpr.effects)))
            raise WeftValueError(
                f"the body of the primitive {self.name!r} has effects",
                operation=self.name,
                got=found,
                wanted="a body that computes results and does nothing else",
                fix=Fix("effects", "call back or print outside of the primitive", {}),
            )
        return jaxpr

    def result_types(self, types: Sequence[ArrayType], params: dict[str, Any]) -> list[ArrayType]:
        """The types of the program's results, which vary along every axis that an operand does."""
        axes = join_varying(types)
        found = self.program(types, params).out_types
        return [t.update(varying=axes) for t in found] if axes else list(found)


def _first(item: tuple[str, Any]) -> str:
    return item[0]
