"""Changes of one part of a file that is otherwise as weft writes it, for files with right digests.

A file is decoded, a part of it is changed, and the caller gives it the digests that it then has. A
change of JSON keeps it JSON: a value is replaced by a strange one or by another one of the file,
left out, doubled, moved, or counted up or down.
"""

from __future__ import annotations

import copy

# Values that no writer writes, or writes elsewhere.
STRANGE = [
    None, True, False, 0, 1, -1, 2, 7, 255, 2**31 - 1, 2**31, 2**32, 2**53 + 1, 2**62, 2**63 - 1,
    2**63, 2**64, 10**30, 10**400, 0.0, -0.0, 1.5, 1e308, float("inf"), float("nan"), "", "x", "0",
    "-1", "1", "\0", "\ud800", "é" * 40, "..", "/", "../../x", "a/b", "x" * 5000, "float32", "int4",
    "leaf", "none", "list", "dict", "text", "cpu", "main", [], {}, [[]], [{}], [0], [0, 0], [1] * 9,
    [-1], [2**62], [2**62, 2**62], [None], ["x"], [True], {"kind": "leaf"}, {"kind": "none"},
    {"kind": "list", "children": []}, {"": 0}, {"c": [4, "00"]}, [["text", "a"]], "c/0", "c",
]  # fmt: skip


def places(value, path=()):
    """The paths of all parts of a JSON value."""
    yield path
    children = value.items() if isinstance(value, dict) else ()
    children = enumerate(value) if isinstance(value, list) else children
    for key, child in children:
        yield from places(child, (*path, key))


def at(value, path):
    for key in path:
        value = value[key]
    return value


def changed(value, random):
    """A JSON value with one to three parts changed."""
    value = copy.deepcopy(value)
    for _ in range(random.choice((1, 1, 1, 2, 3))):
        value = _changed_once(value, random)
    return value


def _changed_once(value, random):
    path = random.choice([path for path in places(value) if path] or [()])
    if not path:
        return copy.deepcopy(random.choice(STRANGE))
    *outer, last = path
    parent, old = at(value, outer), at(value, path)
    kind = random.choice(("replace", "replace", "step", "other", "remove", "double", "swap", "add"))
    if kind == "step" and type(old) in (int, float):
        parent[last] = old + random.choice((-1, 1, 2, 3, -old, old, 2**31, 2**32))
    elif kind == "step" and isinstance(old, str) and old:
        spot = random.randrange(len(old))
        parent[last] = (
            old[:spot] + chr(ord(old[spot]) ^ random.choice((1, 2, 4, 8))) + old[spot + 1 :]
        )
    elif kind == "other":
        parent[last] = copy.deepcopy(at(value, random.choice(list(places(value)))))
    elif kind == "remove":
        del parent[last]
    elif kind == "double" and isinstance(parent, list):
        parent.insert(last, copy.deepcopy(old))
    elif kind == "swap" and isinstance(parent, list):
        spot = random.randrange(len(parent))
        parent[last], parent[spot] = parent[spot], parent[last]
    elif kind == "add" and isinstance(old, dict):
        old[random.choice(("surprise", "key", "kind", "c/0", ""))] = random.choice(STRANGE)
    elif kind == "add" and isinstance(old, list):
        old.append(copy.deepcopy(random.choice(STRANGE)))
    else:
        parent[last] = copy.deepcopy(random.choice(STRANGE))
    return value


def changed_bytes(content, random):
    """Bytes with one to four of them changed, removed or added."""
    content = bytearray(content)
    for _ in range(random.choice((1, 1, 2, 4))):
        spot = random.randrange(len(content) + 1)
        kind = random.choice(("flip", "flip", "set", "cut", "insert", "end"))
        if kind == "end" or not content:
            del content[spot:]
        elif kind == "insert":
            content[spot:spot] = bytes(random.choice((0, 1, 127, 255)) for _ in range(3))
        elif kind == "cut":
            del content[spot : spot + random.choice((1, 2, 8))]
        elif spot < len(content):
            value = 1 << random.randrange(8) if kind == "flip" else random.randrange(256)
            content[spot] = content[spot] ^ value if kind == "flip" else value
    return bytes(content)
