"""Kinds of arguments: each converts a value to one form, or raises an error.

The signature of a function of arrays is its specification. Each parameter is annotated with a kind,
and `array_function` reads nothing else: which arguments are operands and which are part of the
program, how each is converted, and what is wrong with a value that is refused.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

from weft.core.types import ArrayType


class Arguments(dict[str, Any]):
    """The arguments of one call that were taken so far, by name, for the kinds that depend on them.

    Args:
        operation: The name of the function, for errors.
        name: The name of the argument that is taken now.
        position: Its position in the signature.
        type: The type of the first argument, if that is an operand.
        reads: Whether a kind has read the values of an array. Such a call is not known again.
    """

    __slots__ = ("name", "operation", "position", "reads", "type")

    operation: str
    name: str
    position: int
    type: ArrayType
    reads: bool


NONE: frozenset[Any] = frozenset((None,))


@dataclasses.dataclass(frozen=True, eq=False)
class Kind:
    """One kind of argument.

    Args:
        take: Returns the one form of a value, given the `Arguments` before it, or raises.
        means: The meaning of an argument, for the pages of the reference.
        wrong: Values that are refused, for tests.
        right: A value that is taken, for tests of functions that need one.
        static: Whether the form is part of the program. Other arguments are operands.
        fixed: Whether a Python number, or a tuple of them, is part of the program, too: then it
            keeps all its digits. So is a name that stands for an operand.
        plain: Constants of Python's, such as None, that are their own form: taken without a call.
        arrays: Whether arrays and tracers are, too.
        by_class: Whether the class of a Python number says what becomes of it, beside arrays whose
            integers are of the default width, as long as it has that width, too. Then a call that
            was made with another number of its class is known.
        late: Whether it depends on arguments that come after it.
        together: How operands of this kind are brought together, given the name of the function and
            their values: to a common dtype, for instance. It runs as a part of the program.
    """

    take: Callable[[Any, Arguments], Any]
    means: str
    wrong: tuple[Any, ...] = ()
    right: Any = None
    static: bool = True
    fixed: bool = False
    plain: frozenset[Any] = NONE
    arrays: bool = False
    by_class: bool = False
    late: bool = False
    together: Callable[[str, list[Any]], Sequence[Any]] | None = None

    @property
    def plain_ids(self) -> frozenset[int]:
        """The identities of the plain values."""
        return frozenset(map(id, self.plain))
