"""`inspect_array_sharding` and `debug.log`."""

from __future__ import annotations

import logging

import pytest

import weft
import weft.numpy as jnp
from weft.errors import WeftTypeError, WeftValueError


def inspected(seen):
    def f(x):
        weft.debug.inspect_array_sharding({"x": x}, callback=seen.append)
        return 2 * x

    return f


def test_arrays_show_their_shardings():
    seen = []
    mesh = weft.make_mesh((2,), ("i",), devices=weft.devices()[:2])
    x = weft.device_put(jnp.arange(4.0), weft.NamedSharding(mesh, weft.P("i")))
    inspected(seen)(x)
    assert seen == [x.sharding]
    with pytest.raises(WeftTypeError, match="callback"):
        weft.debug.inspect_array_sharding(x, callback=3)


def test_inside_of_jit_it_is_called_once_when_compiled():
    seen = []
    f = weft.jit(inspected(seen))
    assert float(f(1.0)) == 2.0 and float(f(2.0)) == 4.0
    assert [len(s.device_set) for s in seen] == [1]
    assert float(weft.jit(weft.grad(inspected(seen)))(1.0)) == 2.0
    assert weft.vmap(inspected(seen))(jnp.ones(2)).tolist() == [2.0, 2.0]


def test_values_over_several_devices_are_split_as_the_compiler_chose():
    mesh = weft.make_mesh((4, 2), ("a", "b"))
    x = weft.device_put(jnp.arange(64.0).reshape(8, 8), weft.NamedSharding(mesh, weft.P("a", "b")))
    seen: dict[str, list[object]] = {}

    def look(name, value):
        found = seen.setdefault(name, [])
        weft.debug.inspect_array_sharding(value, callback=lambda how: found.append(how))

    def f(x):
        look("x", x)
        look("sum", jnp.sin(x).sum(0))
        mapped = weft.shard_map(lambda y: look("block", y) or y, mesh=mesh, in_specs=weft.P("a"),
                                out_specs=weft.P("a"))  # fmt: skip
        return mapped(x)

    f = weft.jit(f)
    f(x), f(x)
    assert seen["x"] == [x.sharding] and seen["sum"] == [weft.NamedSharding(mesh, weft.P("b"))]
    assert seen["block"] == [weft.NamedSharding(mesh, weft.P())]


def test_values_are_logged(caplog):
    with caplog.at_level(logging.INFO, "weft.debug"):
        weft.jit(lambda x: weft.debug.log("x = {x:.1f}, {}", x > 0, x=x))(1.5)
        weft.effects_barrier()
    assert [record.getMessage() for record in caplog.records] == ["x = 1.5, True"]
    with pytest.raises(WeftValueError, match="format"):
        weft.debug.log("{} {}", 1.0)


def test_formats_that_are_not_checked(capsys):
    class Late:
        def __format__(self, spec):
            return "late"

    weft.debug.print("{:anything}", Late(), skip_format_check=True)
    assert capsys.readouterr().out == "late\n"
