"""Runs exported programs in a process that has none of the Python they were made of.

`python export_runner.py FOLDER` reads, for each case in the folder, `NAME.weft`, `NAME.how` (how to
call it) and `NAME.in` (the bytes of the arguments' leaves, one after the other), and writes the
bytes of the results' leaves to `NAME.out`.
"""

from __future__ import annotations

import collections
import dataclasses
import pathlib
import sys

import numpy as np

import weft
from weft import export, tree


@dataclasses.dataclass
class Block:
    """What the other process calls Layer."""

    weight: object
    factor: int


tree.register_dataclass(Block, ["weight"], ["factor"])
export.register_pytree_node_serialization(
    Block,
    serialized_name="tests.Layer",
    serialize_auxdata=lambda data: str(data[0]).encode(),
    deserialize_auxdata=lambda data: (int(data),),
)
Place = collections.namedtuple("Place", "first second")
export.register_namedtuple_serialization(Place, serialized_name="tests.Point")


def total(out):
    return sum(x.sum() for x in tree.leaves(out))


# From the exported program to a function of its arguments.
HOW = {
    "call": lambda e: e.call,
    "jit": lambda e: weft.jit(e.call),
    "vmap": lambda e: weft.vmap(e.call),
    "grad": lambda e: weft.grad(lambda *args: total(e.call(*args))),
    "jit_grad": lambda e: weft.jit(weft.grad(lambda *args: total(e.call(*args)))),
    "hessian": lambda e: weft.jacrev(weft.grad(lambda *args: total(e.call(*args)))),
    "jvp": lambda e: lambda x: weft.jvp(e.call, (x,), (x,))[1],
    "vjp": lambda e: e.vjp().call,
}


def stored(shape, dtype):
    """The shape and dtype of an array's bytes, and what makes the array of them."""
    if hasattr(dtype, "key_shape"):
        generator = dtype.implementation.name
        return (*shape, *dtype.key_shape), np.dtype(np.uint32), (
            lambda bits: weft.random.wrap_key_data(bits, impl=generator)
        )  # fmt: skip
    return shape, dtype, lambda values: values


def read(data, types, mapped):
    leaves = []
    for t in types:
        shape, dtype, make = stored((2, *t.shape) if mapped else t.shape, t.dtype)
        count = int(np.prod(shape, dtype=int)) * dtype.itemsize
        leaves.append(make(np.frombuffer(data[:count], dtype).reshape(shape)))
        data = data[count:]
    assert not data, "bytes are left over"
    return leaves


def written(value):
    if hasattr(value.dtype, "key_shape"):
        value = weft.random.key_data(value)
    return np.asarray(value).tobytes()


def main(folder):
    assert "jax" not in sys.modules
    for path in sorted(pathlib.Path(folder).glob("*.weft")):
        exported = export.deserialize(path.read_bytes())
        how = path.with_suffix(".how").read_text()
        program = exported.vjp() if how == "vjp" else exported
        data = path.with_suffix(".in").read_bytes()
        leaves = read(data, program.in_avals, how == "vmap")
        args, kwargs = tree.unflatten(program.in_tree, leaves)
        out = HOW[how](exported)(*args, **kwargs)
        path.with_suffix(".out").write_bytes(b"".join(map(written, tree.leaves(out))))
        if how == "call":
            structure = tree.map(lambda x: 0, out)
            path.with_suffix(".tree").write_text(repr(structure))


if __name__ == "__main__":
    main(sys.argv[1])
