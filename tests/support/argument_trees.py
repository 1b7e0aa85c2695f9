"""Random calls with random trees of arguments, some of them hostile, and what each call gives.

    python tests/support/argument_trees.py 1 1000    the seed, and the number of calls

Each line of the output is the digest of one call: of the types, places and bits of its results, or
of its error. The compiled module must not change a line, so the output with WEFT_COMPILED_CALLS=0
is the same. Keys and parameters run code while they are compared: they empty caches, call the
function again, and replace what the caller looks at by equal values, so that a reference that is
not held shows under AddressSanitizer.
"""

from __future__ import annotations

import collections
import dataclasses
import gc
import hashlib
import itertools
import random
import sys
import warnings

import numpy as np

import weft
import weft.numpy as jnp
from weft import tree
from weft.arrays.array import Array
from weft.extend.core import Primitive
from weft.extend.interpreters import mlir

Pair = collections.namedtuple("Pair", "first second")


@tree.register_dataclass
@dataclasses.dataclass
class Layer:
    """A container of a class of its own."""

    weight: object
    name: str = tree.static(default="layer")


class Action:
    """What hostile values do while they are looked at: the calls of the present round."""

    def __init__(self):
        self.function, self.containers, self.busy = None, [], False
        self.times = itertools.count()

    def run(self, kind):
        """Runs code that a reference which is not held does not survive."""
        if self.busy:
            return
        self.busy = True
        try:
            if kind == "raise":
                raise ValueError("a hostile value")
            if kind == "forget" and next(self.times) % 50 == 0:
                self.function.clear_cache()
            if kind == "forget all":
                weft.clear_caches()
            if kind == "call":
                self.function(jnp.ones(2))
            if kind == "collect":
                gc.collect(1)
            if kind == "replace":
                for container in self.containers:
                    if isinstance(container, list):
                        container[:] = [again(value) for value in container]
                    else:
                        for key in container:
                            container[key] = again(container[key])
            if kind == "replace cache":
                hostile_p.eager_cache = dict(hostile_p.eager_cache)
        finally:
            self.busy = False


action = Action()
KINDS = ["", "raise", "forget", "call", "collect", "replace"]


def again(value):
    """An equal value in an object of its own."""
    if type(value) is float or type(value) is int:
        return type(value)(str(value))
    if type(value) is np.ndarray:
        return value.copy()
    if type(value) is list:
        return list(value)
    return value


class Key(str):
    """A key that runs code when it is compared."""

    __slots__ = ("kind",)
    __hash__ = str.__hash__

    def __eq__(self, other):
        action.run(self.kind)
        return str.__eq__(self, other)


class Parameter:
    """A parameter of a primitive that runs code when it is compared or hashed."""

    def __init__(self, number, kind):
        self.number, self.kind = number, kind

    def __eq__(self, other):
        action.run(self.kind)
        return isinstance(other, Parameter) and other.number == self.number

    def __hash__(self):
        action.run(self.kind)
        return hash(self.number)


hostile_p = Primitive("hostile")
hostile_p.def_abstract_eval(lambda x, *, how: x.strong())
mlir.register_lowering(hostile_p, lambda context, x, *, how: mlir.hlo.add(x, x))
# As a primitive of weft's own has it: the compiled module reads no other.
hostile_p.eager_cache = {}


ARRAYS = [
    jnp.ones(2),
    jnp.arange(3),
    jnp.ones((), jnp.float32),
    weft.device_put(jnp.ones(2), weft.devices()[-1]),
    jnp.ones(2, jnp.bfloat16),
    weft.random.key(0),
]
DELETED = jnp.ones(2)
DELETED.delete()
NUMBERS = [0, 1, True, False, 1.0, -0.0, 0.0, float("nan"), 2**31, -(2**40), 2**70, 1e300]
LEAVES = {
    "array": lambda rng: rng.choice(ARRAYS[:2]),
    "any array": lambda rng: rng.choice(ARRAYS),
    "host": lambda rng: np.full(2, rng.random(), np.float32),
    "any host": lambda rng: rng.choice(
        [np.arange(3), np.ones(2, ">f4"), np.arange(6.0)[::2], np.float32(1.5)]
    ),
    "number": lambda rng: rng.random(),
    "any number": lambda rng: rng.choice(NUMBERS),
    "none": lambda rng: None,
    "deleted": lambda rng: DELETED,
    "not an array": lambda rng: rng.choice(["text", object, 1j]),
}
USUAL = ["array", "array", "any array", "host", "number", "none"]


def form(rng, levels):
    """A tree as a description: of leaves by kind, and of containers."""
    if levels > 9:  # about as many as a pattern may have
        deep = form(rng, 1)
        for _ in range(levels + rng.randrange(6)):
            deep = rng.choice(["list", "tuple", "dict"]), [deep], None
        return deep
    if levels == 0 or rng.random() < 0.3:
        return rng.choice(USUAL) if rng.random() < 0.95 else rng.choice(list(LEAVES))
    container = rng.choice(["list", "tuple", "pair", "dict", "dict", "hostile", "ordered", "layer"])
    count = {"pair": 2, "layer": 1}.get(container, rng.randrange(4))
    children = [form(rng, levels - 1) for _ in range(count)]
    if container == "hostile":
        return "hostile", children, rng.choice(KINDS)
    return container, children, None


def value_of(described, rng):
    """A tree of a form."""
    if isinstance(described, str):
        return LEAVES[described](rng)
    container, children, kind = described
    values = [value_of(child, rng) for child in children]
    names = ["a", "b", "c"][: len(values)]
    if container == "list":
        action.containers.append(values)
        return values
    if container == "tuple":
        return tuple(values)
    if container == "pair":
        return Pair(*values)
    if container == "layer":
        return Layer(*values)
    if container == "ordered":
        return collections.OrderedDict(zip(names, values, strict=True))
    order = rng.sample(range(len(names)), len(names))
    if container == "hostile":
        # One form with names and with names that run code, so that one is held against the other.
        names = [Key(name) if rng.random() < 0.7 else name for name in names]
        for name in names:
            if isinstance(name, Key):
                name.kind = kind
    found = {names[i]: values[i] for i in order}
    action.containers.append(found)
    return found


def changed(described, rng):
    """A form that differs from another in one place."""
    if isinstance(described, str) or not described[1]:
        return rng.choice(list(LEAVES))
    container, children, kind = described
    if container in ("list", "tuple") and rng.random() < 0.2:
        return {"list": "tuple", "tuple": "list"}[container], children, kind
    i = rng.randrange(len(children))
    return container, [*children[:i], changed(children[i], rng), *children[i + 1 :]], kind


def told(value):
    """Everything of a result that a program decides."""
    if isinstance(value, Array):
        return str(value.type), str(value._committed_place()), value._stored().tobytes()
    return type(value).__name__, repr(value)


def outcome(call):
    """The results of a call, or its error, as a digest."""
    try:
        leaves, structure = tree.flatten(call())
        found = [told(leaf) for leaf in leaves], str(structure)
    except Exception as error:  # noqa: BLE001 (whatever it is, it is compared)
        found = type(error).__name__, str(error).partition("\n  at ")[0]
    return hashlib.sha256(repr(found).encode()).hexdigest()[:16]


def functions():
    """Jitted functions of a tree, by position and by name, and of a static argument."""
    return [
        weft.jit(lambda *args, **kwargs: (args, kwargs)),
        weft.jit(lambda tree, k=1, **kwargs: (tree, kwargs, jnp.ones(k)), static_argnames="k"),
        weft.jit(lambda *args, **kwargs: (kwargs, args), keep_unused=True),
    ]


def combination(rng, forms):
    """A call as a description: the number of its function, and its arguments."""
    chosen = [rng.choice(forms) for _ in range(rng.choice([0, 1, 1, 2]))]
    by_name = {"x": rng.choice(forms)} if rng.random() < 0.2 else {}
    number = rng.randrange(3)
    if number == 1:
        chosen = chosen[:1] or ["none"]
        by_name |= rng.choice([{}, {"k": 2}, {"k": True}, {"k": 1}])
    return number, chosen, by_name


def calls(seed, count):
    """So many random calls, as functions without arguments. Most are like an earlier one, which the
    compiled module knows then."""
    rng = random.Random(seed)
    forms = [form(rng, rng.choice([1, 2, 2, 3, 3, 60])) for _ in range(12 + count // 500)]
    forms += [changed(rng.choice(forms), rng) for _ in range(len(forms) // 4)]
    combinations = [combination(rng, forms) for _ in range(24 + count // 500)]
    pool = functions()
    parameters = [Parameter(n, kind) for n in (0, 1) for kind in (*KINDS, "replace cache")]
    for number in range(count):
        if number % 5000 == 4999:
            action.run("forget all")
        action.containers.clear()
        i = rng.randrange(len(combinations))
        which, chosen, by_name = combinations[i]
        function = action.function = pool[which]
        if rng.random() < 0.1:
            x, how = rng.choice(ARRAYS[:5]), rng.choice(parameters)
            yield lambda x=x, how=how: hostile_p.bind(x, how=how)
            continue
        # The same values again, in new objects: three choices of leaves for each combination.
        values = random.Random(3 * i + rng.randrange(3))
        args = [value_of(one, values) for one in chosen]
        kwargs = {key: one if key == "k" else value_of(one, values) for key, one in by_name.items()}
        yield lambda f=function, args=args, kwargs=kwargs: f(*args, **kwargs)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    for call in calls(int(sys.argv[1]), int(sys.argv[2])):
        print(outcome(call))
