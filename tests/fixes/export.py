"""Fixes of exported programs: making them, writing and reading them, and calling them."""

from __future__ import annotations

import collections
import dataclasses
import functools
import hashlib
import json
import pathlib
import struct
import tempfile
from typing import NamedTuple

import numpy as np

import weft
import weft.numpy as jnp
from fixes import Fixed
from weft import P, export, tree
from weft.errors import (
    ShapeError,
    TreeError,
    WeftNotImplementedError,
    WeftTypeError,
    WeftValueError,
)
from weft.export import serialized_trees
from weft.extend.core import Primitive
from weft.extend.interpreters import mlir
from weft.extend.random import define_generator
from weft.random import generator
from weft.runtime import stablehlo
from weft.sharding import NamedSharding, Sharding

X = np.arange(4, dtype=np.float32)
NUMBER = weft.ShapeDtypeStruct((), "float32")


class Pair(NamedTuple):
    a: object
    b: object


@tree.register_dataclass
@dataclasses.dataclass
class Scale:
    factor: object
    name: str = tree.static(default="scale")


@weft.jit
def double(x):
    return 2 * x


@functools.cache
def exported(function=double, like=X, **options):
    return export.export(function, **options)(like)


def made(function, *args, **options):
    return export.export(weft.jit(function), **options)(*args)


def again(program, order=0):
    return export.deserialize(program.serialize(vjp_order=order))


def grid(*order):
    devices = [weft.devices()[i] for i in order or (0, 1)]
    return weft.make_mesh((len(devices),), ("i",), devices=devices)


@functools.cache
def split_program():
    return made(lambda x: 2 * x, weft.device_put(X, NamedSharding(grid(), P("i"))))


# ---- making them -------------------------------------------------------------------------------


def noisy(x):
    weft.debug.print("{}", x)
    return 2 * x


kernel_p = Primitive("kernel_of_fixes")
kernel_p.def_abstract_eval(lambda x: x)
mlir.register_lowering(
    kernel_p, lambda ctx, x: stablehlo.custom_call("kernel_of_fixes", [x], [x.type])[0]
)


class OwnSharding(Sharding):
    """A sharding of a program's own: the first dimension over two devices."""

    device_list = property(lambda self: tuple(weft.devices()[:2]))
    is_fully_replicated = False

    def assignment(self, ndim):
        return np.arange(2).reshape(2, *[1] * ndim)


def forgetting(program):
    """Runs a program, and forgets the classes that it registered."""
    before = dict(serialized_trees._by_class), dict(serialized_trees._by_name)
    try:
        return program()
    finally:
        for table, entries in zip(
            (serialized_trees._by_class, serialized_trees._by_name), before, strict=True
        ):
            table.clear()
            table.update(entries)


def register_scale(name="fixes.Scale"):
    export.register_pytree_node_serialization(
        Scale,
        serialized_name=name,
        serialize_auxdata=lambda data: data[0].encode(),
        deserialize_auxdata=lambda data: (data.decode(),),
    )


def scaled():
    return again(made(lambda s: 2 * s.factor, Scale(X))).call(Scale(X))


def paired():
    return again(made(lambda pair: pair.a + pair.b, Pair(X, X))).call(Pair(X, X))


def register_pair(name="fixes.Pair"):
    export.register_namedtuple_serialization(Pair, serialized_name=name)


def both(*programs):
    return forgetting(lambda: [program() for program in programs][-1])


def defaults(factory):
    return made(lambda x: collections.defaultdict(factory, y=2 * x), X).call(X)["y"]


def of_version(version):
    """The version of an export that is made with a setting."""
    with weft.config.override(jax_export_calling_convention_version=version):
        return export.export(weft.jit(jnp.sin))(1.0).calling_convention_version


MAKING = [
    Fixed(
        "weft.config.update('jax_export_calling_convention_version', 10)",
        wrong=lambda: of_version(3),
        fixed=lambda fix: of_version(fix.data["value"]),
        value=10,
        error=WeftValueError,
    ),
    Fixed(
        "pass weft.jit(function)",
        wrong=lambda: export.export(lambda x: 2 * x),
        fixed=lambda fix: export.export(weft.jit(lambda x: 2 * x))(X).call(X),
        value=2 * X,
        error=WeftTypeError,
    ),
    Fixed(
        "pass platforms=('cpu',)",
        wrong=lambda: exported(platforms="cpu"),
        fixed=lambda fix: exported(platforms=("cpu",)).call(X),
        value=2 * X,
        error=WeftTypeError,
    ),
    Fixed(
        "pass platforms=('cpu',)",
        wrong=lambda: exported(platforms=()),
        fixed=lambda fix: exported(platforms=("cpu",)).call(X),
        value=2 * X,
        error=WeftTypeError,
    ),
    Fixed(
        "pass platforms=('cpu', 'tpu')",
        wrong=lambda: exported(platforms=("cpu", "abacus", "tpu")),
        fixed=lambda fix: exported(platforms=("cpu", "tpu")).call(X),
        value=2 * X,
        error=WeftValueError,
    ),
    Fixed(
        "leave the call out of the function that is exported",
        wrong=lambda: made(noisy, X),
        fixed=lambda fix: made(lambda x: 2 * x, X).call(X),
        value=2 * X,
        error=WeftNotImplementedError,
    ),
    Fixed(
        "[weft.export.DisabledSafetyCheck.custom_call('kernel_of_fixes')]",
        wrong=lambda: made(kernel_p.bind, X),
        fixed=lambda fix: made(
            kernel_p.bind,
            X,
            disabled_checks=[weft.export.DisabledSafetyCheck.custom_call("kernel_of_fixes")],
        ).mlir_module(),
        value=lambda text: "@kernel_of_fixes" in text,
        error=WeftValueError,
    ),
    Fixed(
        "make the value an argument, and export outside of the trace",
        wrong=lambda: weft.jit(lambda y: made(lambda x: x + y, X).call(X))(X),
        fixed=lambda fix: weft.jit(made(lambda x, y: x + y, X, X).call)(X, X),
        value=2 * X,
        error=WeftValueError,
    ),
    Fixed(
        "use a NamedSharding over a mesh",
        wrong=lambda: made(lambda x: 2 * x, weft.device_put(X, OwnSharding())),
        fixed=lambda fix: made(
            lambda x: 2 * x, weft.device_put(X, NamedSharding(grid(), P("i")))
        ).call(X),
        value=2 * X,
        error=WeftTypeError,
    ),
    Fixed(
        "pass vjp_order=1",
        wrong=lambda: exported().serialize(vjp_order=True),
        fixed=lambda fix: weft.grad(again(exported(like=NUMBER), order=1).call)(1.0),
        value=2,
        error=WeftTypeError,
    ),
]

TREES = [
    Fixed(
        "use export.register_namedtuple_serialization(Pair, serialized_name='fixes.Pair')",
        wrong=lambda: export.register_pytree_node_serialization(
            Pair, serialized_name="fixes.Pair", serialize_auxdata=repr, deserialize_auxdata=repr
        ),
        fixed=lambda fix: both(register_pair, paired),
        value=2 * X,
        error=WeftTypeError,
    ),
    Fixed(
        "register the class once, under a name of its own",
        wrong=lambda: both(register_scale, lambda: register_pair("fixes.Scale")),
        fixed=lambda fix: both(register_scale, register_pair, paired),
        value=2 * X,
        error=WeftValueError,
    ),
    Fixed(
        "pass a dict",
        wrong=lambda: defaults(object),
        fixed=lambda fix: made(lambda x: {"y": 2 * x}, X).call(X)["y"],
        value=2 * X,
        error=TreeError,
    ),
    Fixed(
        "call weft.export.register_pytree_node_serialization(Scale, serialized_name='Scale'",
        wrong=scaled,
        fixed=lambda fix: both(lambda: register_scale("Scale"), scaled),
        value=2 * X,
        error=TreeError,
    ),
    Fixed(
        "call weft.export.register_namedtuple_serialization(Pair, serialized_name='Pair')",
        wrong=paired,
        fixed=lambda fix: both(lambda: register_pair("Pair"), paired),
        value=2 * X,
        error=TreeError,
    ),
    Fixed(
        "use a string as the key",
        wrong=lambda: made(lambda x: {b"y": 2 * x}, X),
        fixed=lambda fix: made(lambda x: {"y": 2 * x}, X).call(X)["y"],
        value=2 * X,
        error=TreeError,
    ),
    Fixed(
        "call weft.export.register_pytree_node_serialization(its class, "
        "serialized_name='fixes.Scale', ...) first",
        wrong=lambda: export.deserialize(scale_bytes()),
        fixed=lambda fix: both(
            register_scale, lambda: export.deserialize(scale_bytes()).call(Scale(X))
        ),
        value=2 * X,
        error=WeftValueError,
    ),
]


@functools.cache
def scale_bytes():
    return both(register_scale, lambda: made(lambda s: 2 * s.factor, Scale(X)).serialize())


# ---- reading them ------------------------------------------------------------------------------


def rewritten(change, version=1, artifact=None):
    """The bytes of a program with another header or artifact, and with the checksums of those."""
    data = exported().serialize()
    length = struct.unpack_from("<Q", data, 12)[0]
    header = json.loads(data[20 : 20 + length])
    change(header)
    sections = data[20 + length + 32 :] if artifact is None else artifact
    if artifact is not None:
        digest = hashlib.sha256(artifact).hexdigest()
        header["sections"] = [{"length": len(artifact), "sha256": digest}]
    text = json.dumps(header).encode()
    start = data[:8] + struct.pack("<IQ", version, len(text)) + text
    return start + hashlib.sha256(start).digest() + sections


def reads(data):
    return export.deserialize(data).call(X)


def put(**changes):
    """Writes other values into the header's first program, or into the type of its argument."""

    def change(header):
        program = header["programs"][0]
        kind = program["in_types"][0]
        for name, value in changes.items():
            assert name in program or name in kind
            (program if name in program else kind)[name] = value

    return change


def counter(seed):
    return seed.astype("uint32").reshape(1)


def with_generator(program):
    """Runs a program where there is the generator "fixes counter"."""
    define_generator(
        "fixes counter",
        tag="fxc",
        key_shape=(1,),
        seed=counter,
        split=lambda bits, shape: jnp.broadcast_to(bits, (*shape, 1)),
        fold_in=lambda bits, data: bits + data,
        random_bits=lambda bits, width, shape: jnp.broadcast_to(bits, shape).astype(f"u{width}"),
    )
    try:
        return program(weft.random.key(5, impl="fixes counter"))
    finally:
        generator._by_name.pop("fixes counter")


@functools.cache
def key_bytes():
    return with_generator(lambda key: made(weft.random.key_data, key).serialize())


READING = [
    Fixed(
        "read the file first: open(path, 'rb').read()",
        wrong=lambda: export.deserialize(__file__),
        fixed=lambda fix: reads(from_file()),
        value=2 * X,
        error=WeftTypeError,
    ),
    Fixed(
        "export the program again",
        wrong=lambda: export.deserialize(exported().serialize()[:-1]),
        fixed=lambda fix: reads(made(lambda x: 2 * x, X).serialize()),
        value=2 * X,
        error=WeftValueError,
    ),
    Fixed(
        "or export with the version of weft that is here",
        wrong=lambda: export.deserialize(rewritten(lambda header: None, version=2)),
        fixed=lambda fix: reads(made(lambda x: 2 * x, X).serialize()),
        value=2 * X,
        error=WeftValueError,
    ),
    Fixed(
        "or export with an older one",
        wrong=lambda: export.deserialize(rewritten(put(stablehlo_version="99.0.0"))),
        fixed=lambda fix: reads(made(lambda x: 2 * x, X).serialize()),
        value=2 * X,
        error=WeftValueError,
    ),
    Fixed(
        "upgrade weft here",
        wrong=lambda: export.deserialize(rewritten(put(dtype="float256"))),
        fixed=lambda fix: export.deserialize(rewritten(put(dtype="float32"))).call(X),
        value=2 * X,
        error=WeftValueError,
    ),
    Fixed(
        "define it first: weft.extend.random.define_generator('fixes counter', ...)",
        wrong=lambda: export.deserialize(key_bytes()),
        fixed=lambda fix: with_generator(lambda key: export.deserialize(key_bytes()).call(key)),
        value=np.array([5]),
        error=WeftValueError,
    ),
    Fixed(
        "export the program again",
        wrong=lambda: export.deserialize(rewritten(put(shape=[5]))).call(
            np.arange(5.0, dtype="f4")
        ),
        fixed=lambda fix: reads(made(lambda x: 2 * x, X).serialize()),
        value=2 * X,
        error=WeftValueError,
    ),
]


def from_file():
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "double.weft")
        path.write_bytes(exported().serialize())
        with open(path, "rb") as file:
            return file.read()


# ---- calling them ------------------------------------------------------------------------------

one_device = weft.make_mesh((1,), ("k",), devices=weft.devices()[:1])


@functools.cache
def program_of_one():
    """A program for one device that has a mesh of one."""
    mapped = weft.shard_map(
        lambda x: weft.lax.psum(x, "k"), mesh=one_device, in_specs=P("k"), out_specs=P()
    )
    return again(made(mapped, X))


def squared(x):
    return x * x


CALLING = [
    Fixed(
        "export it with platforms=('tpu', 'cpu')",
        wrong=lambda: exported(platforms=("tpu",)).call(X),
        fixed=lambda fix: exported(platforms=("tpu", "cpu")).call(X),
        value=2 * X,
        error=WeftValueError,
    ),
    Fixed(
        "where it is exported, write serialize(vjp_order=1), or a higher order",
        wrong=lambda: again(made(squared, NUMBER)).vjp(),
        fixed=lambda fix: again(made(squared, NUMBER), order=1).vjp().call(3.0, 1.0),
        value=[np.float32(6)],
        error=WeftValueError,
    ),
    Fixed(
        "serialize(vjp_order=1), or a higher order: one for each time that it is differentiated",
        wrong=lambda: weft.grad(again(made(squared, NUMBER)).call)(3.0),
        fixed=lambda fix: [
            weft.grad(again(made(squared, NUMBER), order=1).call)(3.0),
            weft.grad(weft.grad(again(made(squared, NUMBER), order=2).call))(3.0),
        ],
        value=[6, 2],
        error=WeftValueError,
    ),
    Fixed(
        "two for each in forward mode",
        wrong=lambda: weft.jvp(again(made(squared, NUMBER)).call, (3.0,), (1.0,)),
        fixed=lambda fix: weft.jvp(again(made(squared, NUMBER), order=2).call, (3.0,), (1.0,)),
        value=(9, 6),
        error=WeftValueError,
    ),
    Fixed(
        "pass (args, kwargs) of that structure",
        wrong=lambda: exported().call(x=X),
        fixed=lambda fix: exported().call(X),
        value=2 * X,
        error=TreeError,
    ),
    Fixed(
        "pass an array of shape (4,), or export the function again for this one",
        wrong=lambda: exported().call(X[:2]),
        fixed=lambda fix: [
            exported().call(np.resize(X[:2], (4,)))[:2],
            made(lambda x: 2 * x, X[:2]).call(X[:2]),
        ],
        value=[2 * X[:2]] * 2,
        error=ShapeError,
    ),
    Fixed(
        "pass x.astype('float32')",
        wrong=lambda: exported().call(X.astype("int32")),
        fixed=lambda fix: exported().call(X.astype("int32").astype("float32")),
        value=2 * X,
        error=WeftTypeError,
    ),
    Fixed(
        "pass weft.numpy.array(x, 'float32')",
        wrong=lambda: exported(like=NUMBER).call(3),
        fixed=lambda fix: exported(like=NUMBER).call(weft.numpy.array(3, "float32")),
        value=6,
        error=WeftTypeError,
    ),
    Fixed(
        "or export the function again for this one",
        wrong=lambda: made(weft.random.key_data, weft.random.key(5)).call(jnp.int32(5)),
        fixed=lambda fix: made(weft.random.key, jnp.int32(5)).call(jnp.int32(5)),
        value=lambda key: weft.random.key_data(key).tolist() == [0, 5],
        error=WeftTypeError,
    ),
    Fixed(
        "call it outside of the shard_map",
        wrong=lambda: weft.shard_map(
            split_program().call, mesh=grid(), in_specs=P(), out_specs=P()
        )(X),
        fixed=lambda fix: split_program().call(X),
        value=2 * X,
        error=WeftNotImplementedError,
    ),
    Fixed(
        "weft.device_put(x, weft.NamedSharding(mesh, weft.P())), with a mesh over them",
        wrong=lambda: split_program().call(weft.device_put(X, weft.devices()[2])),
        fixed=lambda fix: split_program().call(
            weft.device_put(
                X,
                weft.NamedSharding(weft.make_mesh((2,), ("k",), devices=fix.data["devices"]), P()),
            )
        ),
        value=2 * X,
        error=WeftValueError,
    ),
    Fixed(
        "call it with arrays over that many devices",
        wrong=lambda: weft.jit(program_of_one().call)(
            weft.device_put(X, NamedSharding(grid(), P("i")))
        ),
        fixed=lambda fix: weft.jit(program_of_one().call)(
            weft.device_put(X, NamedSharding(one_device, P()))
        ),
        value=X,
        error=WeftNotImplementedError,
    ),
]

FIXES = MAKING + TREES + READING + CALLING
