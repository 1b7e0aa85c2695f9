"""Reads from bytecode the global names that a code object uses, with the attributes it takes from
them, the modules it imports and the outer variables it takes attributes of or assigns.

Nested functions are included; each code object is read once.
"""

from __future__ import annotations

import dis
import functools
import os
import sysconfig
from collections.abc import Iterator
from types import CodeType

from weft.base import source

__all__ = ["CodeReads", "NoKey", "Read", "code_reads", "is_library_file"]


class NoKey(Exception):
    """A value, named in the text, may change unseen, so that a function has no key."""


_GLOBAL_READS = {"LOAD_GLOBAL", "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS"}
_ATTRIBUTE_READS = {"LOAD_ATTR", "LOAD_METHOD"}
_OUTER_WRITES = {"STORE_DEREF", "DELETE_DEREF"}
_GLOBAL_WRITES = {"STORE_GLOBAL", "DELETE_GLOBAL"}
_FREE_READS = {"LOAD_DEREF", "LOAD_CLASSDEREF", "LOAD_FROM_DICT_OR_DEREF"}
_OUTER_USES = _FREE_READS | _GLOBAL_READS | _OUTER_WRITES | _GLOBAL_WRITES
Read = tuple[str, tuple[str, ...], str]
# Special names that lead no further than to the object and its class. Others, such as __globals__
# and __subclasses__, lead anywhere, and so do the frames of generators.
_KNOWN_SPECIAL = (
    frozenset().union(*map(dir, (object, int, float, str, list, dict, set)))
    | frozenset(
        """
        __abs__ __all__ __annotations__ __array__ __bases__ __bool__ __call__ __debug__ __enter__
        __exit__ __file__ __func__ __main__ __matmul__ __mro__ __name__ __next__ __post_init__
        __qualname__ __slots__ __version__ __weft_array__ __wrapped__
        """.split()
    )
) - {"__sizeof__", "__subclasshook__", "__reduce__", "__reduce_ex__"}
_FRAMES = frozenset(("ag_frame", "cr_frame", "f_back", "gi_frame", "tb_frame", "cache_info"))
_DESCRIPTIONS = ("shape", "dtype", "ndim", "size")
# The instructions after `n` in `n[k] += 1`.
_COUNT_UP = [
    "LOAD_CONST",
    "COPY",
    "COPY",
    "BINARY_SUBSCR",
    "LOAD_CONST",
    "BINARY_OP",
    "SWAP",
    "SWAP",
    "STORE_SUBSCR",
]


class CodeReads:
    """The outside names that one code object reads and writes.

    Equal code objects of one file share one `CodeReads`, compared by identity, so it replaces the
    code in a key.

    reads: each global name with the chain of attributes taken from it at once, and its text, such
    as `("numpy", ("linalg", "norm"), "numpy.linalg.norm")`; imports: the modules that import
    statements in it name, None for a relative one; names: all names of globals, attributes and
    imports in it; free: the names of the closure's cells; free_reads: the chains of attributes
    taken from each, as for globals, which matter where a cell holds a module; assigned: those of
    them that the code assigns; assigns_globals: whether it assigns global names; counters: the
    names, free or global, that it only counts up or appends to, so that nothing it computes depends
    on them; opaque: a name of an attribute, if there is one, that leads to more than the object;
    shows: whether it turns values into text, which depends on NumPy's settings.
    """

    __slots__ = (
        "assigned",
        "assigns_globals",
        "code",
        "counters",
        "free",
        "free_reads",
        "imports",
        "names",
        "opaque",
        "reads",
        "shows",
    )

    def __init__(self, code: CodeType) -> None:
        reads: dict[Read, None] = {}
        free_reads: dict[str, dict[Read, None]] = {}
        imports: dict[str | None, None] = {}
        names: set[str] = set()
        texts: set[str] = set()  # `getattr` may ask for them
        assigned: set[str] = set()
        counted: set[str] = set()
        otherwise: set[str] = set()
        self.assigns_globals = self.shows = False
        for inner in _with_nested(code):
            names.update(inner.co_names)
            texts.update(x for x in inner.co_consts if isinstance(x, str) and x.isidentifier())
            instructions = [x for x in dis.get_instructions(inner) if x.opname != "EXTENDED_ARG"]
            for i, instruction in enumerate(instructions):
                operation, name = instruction.opname, instruction.argval
                if operation in _GLOBAL_READS:
                    reads[_read(name, instructions, i + 1)] = None
                elif operation in _FREE_READS:
                    free_reads.setdefault(name, {})[_read(name, instructions, i + 1)] = None
                elif operation in _OUTER_WRITES:
                    assigned.add(name)
                elif operation in _GLOBAL_WRITES:
                    self.assigns_globals = True
                elif operation.startswith("FORMAT_"):
                    self.shows = True
                elif operation == "IMPORT_NAME":
                    # The level of the import is the constant pushed two instructions before.
                    imports[None if instructions[i - 2].argval else name] = None
                if operation in _OUTER_USES:
                    (counted if _only_counts(instructions, i) else otherwise).add(name)
        self.code = code
        self.counters = frozenset(counted - otherwise)
        self.free = code.co_freevars
        self.reads = tuple(reads)
        self.free_reads = {name: tuple(free_reads.get(name, ())) for name in self.free}
        self.imports = tuple(imports)
        self.names = frozenset(names)
        self.shows |= not _SHOW.isdisjoint(names)
        self.opaque = next((name for name in sorted(names | texts) if _is_opaque(name)), None)
        self.assigned = frozenset(assigned.intersection(self.free))


_SHOW = frozenset(("ascii", "format", "print", "repr", "str", "__repr__", "__str__", "__format__"))


def _is_opaque(name: str) -> bool:
    special = name.startswith("__") and name.endswith("__") and name not in _KNOWN_SPECIAL
    return special or name in _FRAMES


def _with_nested(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _with_nested(constant)


def _only_counts(instructions: list[dis.Instruction], i: int) -> bool:
    """Whether a use of an outer variable is a part of `n += 1`, `n[k] += 1`, `n.append(1)` or
    `n.add(x.shape)`, so that its value goes nowhere else."""
    following = [x for x in instructions[i + 1 : i + 16] if x.opname != "PRECALL"]
    names = [x.opname for x in following]
    name = instructions[i].argval
    if instructions[i].opname in _OUTER_WRITES | _GLOBAL_WRITES:
        before = instructions[max(0, i - 3) : i]
        return [x.opname for x in before[1:]] == ["LOAD_CONST", "BINARY_OP"] and (
            before[0].argval == name
        )
    if names[:2] == ["LOAD_CONST", "BINARY_OP"]:
        return names[2].startswith("STORE_") and following[2].argval == name
    if names[:9] == _COUNT_UP:
        return True
    if names[:1] and names[0] in _ATTRIBUTE_READS and following[0].argval in ("append", "add"):
        # These methods of containers return None, so the result may go anywhere.
        return _only_described(following[1:])
    return False


def _only_described(following: list[dis.Instruction]) -> bool:
    """Whether the argument of a call is a constant or a static attribute of a value (`x.shape`).

    Code that stores the values themselves needs those of each call.
    """
    for i, x in enumerate(following):
        if x.opname == "CALL":
            return i > 0
        described = i + 1 < len(following) and following[i + 1].argval in _DESCRIPTIONS
        known = x.opname in _ATTRIBUTE_READS and x.argval in _DESCRIPTIONS
        if not known and x.opname not in ("LOAD_CONST", "BUILD_TUPLE"):
            if not (x.opname.startswith("LOAD_FAST") and described):
                return False
    return False


def _read(name: str, instructions: list[dis.Instruction], start: int) -> Read:
    end = start
    while end < len(instructions) and instructions[end].opname in _ATTRIBUTE_READS:
        end += 1
    path = tuple(str(instruction.argval) for instruction in instructions[start:end])
    return name, path, ".".join((name, *path))


# By identity, since hashing a code object costs more; the code is kept too, so that no other gets
# its identity. And by content, for code that was compiled again.
_by_identity: dict[int, tuple[CodeType, CodeReads]] = {}
_by_content: dict[tuple[str, CodeType], CodeReads] = {}
_MOST = 8192


def code_reads(code: CodeType) -> CodeReads:
    """The `CodeReads` of a code object; cached."""
    known = _by_identity.get(id(code))
    if known is not None:
        return known[1]
    # Equality of code objects covers all but the file name; of constants also the class and the
    # sign of a zero.
    place = (code.co_filename, code)
    found = _by_content.get(place)
    if found is None:
        if len(_by_identity) >= _MOST:
            _by_identity.clear()
            _by_content.clear()
        found = _by_content.setdefault(place, CodeReads(code))
    _by_identity[id(code)] = (code, found)
    return found


@functools.cache
def _library_folders() -> tuple[str, ...]:
    paths = sysconfig.get_paths()
    folders = [paths[name] for name in ("stdlib", "platstdlib", "purelib", "platlib")]
    return tuple({os.path.join(f, "") for path in folders for f in (path, os.path.realpath(path))})


@functools.cache
def is_library_file(path: str) -> bool:
    """Whether a file belongs to the standard library, to weft or to an installed package.

    Args:
        path: The path of the file.
    """
    return (
        source.is_internal(path)
        or path.startswith(("<frozen ", *_library_folders()))
        or any(f"{os.sep}{name}{os.sep}" in path for name in ("site-packages", "dist-packages"))
    )
