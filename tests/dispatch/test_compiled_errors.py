"""Wrong calls of a compiled program: each names the arguments that do not fit, shows both sides,
and suggests a change that is applied here."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import weft
import weft.numpy as wnp
from weft.errors import DeletedArrayError, TreeError, WeftTypeError, WeftValueError
from weft.layout import Format, Layout
from weft.sharding import NamedSharding, PartitionSpec, SingleDeviceSharding

pytestmark = pytest.mark.fast

DEVICES = weft.devices()
MESH = weft.make_mesh((8,), ("i",))
ROWS = NamedSharding(MESH, PartitionSpec("i"))
COLUMNS = Format(Layout((1, 0)), SingleDeviceSharding(DEVICES[0]))


def ones(*shape, dtype=np.float32):
    return np.ones(shape, dtype)


def predict(params, x, n, *, scale):
    return x @ params["layers"][0]["w"] * scale * n + params["b"]


def params(w=None, b=None):
    w = ones(8, 4) if w is None else w
    return {"layers": [{"w": w}], "b": ones(4) if b is None else b}


JITTED = weft.jit(predict, static_argnames="n")
COMPILED = JITTED.lower(params(), ones(8, 8), 2, scale=ones()).compile()
ON_ROWS = weft.jit(predict, static_argnames="n").lower(
    params(), weft.ShapeDtypeStruct((8, 8), np.float32, sharding=ROWS), 2, scale=ones()
)
ON_ROWS = ON_ROWS.compile()


@dataclasses.dataclass
class Wrong:
    """A call that fails, and one with the fix applied."""

    error: type[Exception]
    phrases: tuple[str, ...]
    args: Callable[[], tuple[Any, ...]]
    apply: Callable[[tuple[Any, ...], Any], Any]
    kwargs: Callable[[], dict[str, Any]] = lambda: {"scale": ones()}
    compiled: Any = None


def wrong(error: type[Exception], *phrases: str) -> Callable[..., Wrong]:
    return functools.partial(Wrong, error, phrases)


def replaced(index, change):
    """Applies a fix to one of the positional arguments."""

    def apply(args, fix):
        changed = list(args)
        changed[index] = change(args[index], fix)
        return tuple(changed)

    return apply


def at_w(change):
    return replaced(0, lambda p, fix: params(change(p["layers"][0]["w"], fix), p["b"]))


def moved(x, fix):
    return weft.device_put(x, fix.data["device"])


def cast(x, fix):
    return x.astype(fix.data["dtype"])


def gone():
    x = wnp.ones((8, 8))
    x.delete()
    return x


WRONG = {
    "another shape": wrong(
        WeftTypeError,
        "params['layers'][0]['w'] (another shape)",
        "params['b'] (another shape)",
        "f32[8,5]",
        "f32[8,4]",
        "f32[5]",
        "f32[4]",
        "predict.lower(...)",
    )(lambda: (params(ones(8, 5), ones(5)), ones(8, 8)), lambda args, fix: "itself"),
    "another rank": wrong(WeftTypeError, "x (another shape)", "f32[8]", "f32[8,8]")(
        lambda: (params(), ones(8)), lambda args, fix: "itself"
    ),
    "another dtype": wrong(
        WeftTypeError,
        "params['layers'][0]['w'] (another dtype)",
        "i32[8,4]",
        "f32[8,4]",
        "astype('float32')",
    )(lambda: (params(ones(8, 4, dtype=np.int32)), ones(8, 8)), at_w(cast)),
    "a Python number of another kind": wrong(
        WeftTypeError, "scale (another dtype)", "got: scale: i32[]", "wanted: scale: f32[]"
    )(
        lambda: (params(), ones(8, 8)),
        lambda args, fix: {"scale": np.asarray(3).astype(fix.data["dtype"])},
        kwargs=lambda: {"scale": 3},
    ),
    "no array": wrong(WeftTypeError, "x (no array)", "'text' of class str", "f32[8,8]")(
        lambda: (params(), "text"), replaced(1, lambda x, fix: ones(*fix.data["type"].shape))
    ),
    "another device": wrong(
        WeftValueError,
        "params['layers'][0]['w'] (on another device)",
        "on cpu:3",
        "on cpu:0",
        "device_put",
    )(lambda: (params(weft.device_put(ones(8, 4), DEVICES[3])), ones(8, 8)), at_w(moved)),
    "several devices instead of one": wrong(
        WeftValueError, "x (on another device)", "P('i')", "cpu:0"
    )(lambda: (params(), weft.device_put(ones(8, 8), ROWS)), replaced(1, moved)),
    "one device instead of several": wrong(
        WeftValueError, "x (split in another way)", "cpu:1", "P('i')"
    )(
        lambda: (params(), weft.device_put(ones(8, 8), DEVICES[1])),
        replaced(1, moved),
        compiled=ON_ROWS,
    ),
    "another sharding": wrong(WeftValueError, "x (split in another way)", "P(None, 'i')", "P('i')")(
        lambda: (
            params(),
            weft.device_put(ones(8, 8), NamedSharding(MESH, PartitionSpec(None, "i"))),
        ),
        replaced(1, moved),
        compiled=ON_ROWS,
    ),
    "another layout": wrong(
        WeftValueError,
        "x (another layout) does not match",
        "(1, 0)",
        "(0, 1)",
        "in_shardings",
        "relayout",
    )(lambda: (params(), weft.device_put(ones(8, 8), COLUMNS)), replaced(1, moved)),
    "a deleted array": wrong(DeletedArrayError, "x (gone)", "deleted", "f32[8,8]")(
        lambda: (params(), gone()), replaced(1, lambda x, fix: ones(8, 8))
    ),
    "another static argument": wrong(WeftValueError, "static argument n", "n=3", "n=2")(
        lambda: (params(), ones(8, 8), 3), lambda args, fix: (*args[:2], fix.data["value"])
    ),
    "another static argument by name": wrong(WeftValueError, "static argument n", "n=2.0", "n=2")(
        lambda: (params(), ones(8, 8)),
        lambda args, fix: {"scale": ones(), fix.data["name"]: fix.data["value"]},
        kwargs=lambda: {"scale": ones(), "n": 2.0},
    ),
    "a static argument that cannot be hashed": wrong(WeftValueError, "cannot be hashed", "[2]")(
        lambda: (params(), ones(8, 8), [2]), lambda args, fix: args[:2]
    ),
    "a list of another length": wrong(
        TreeError, "params['layers']", "a list of length 2", "a list of length 1"
    )(
        lambda: ({"layers": [{"w": ones(8, 4)}] * 2, "b": ones(4)}, ones(8, 8)),
        replaced(0, lambda p, fix: p | {"layers": p["layers"][: fix.data["length"]]}),
    ),
    "a tuple instead of a list": wrong(TreeError, "params['layers']", "a tuple", "a list")(
        lambda: ({"layers": ({"w": ones(8, 4)},), "b": ones(4)}, ones(8, 8)),
        replaced(0, lambda p, fix: p | {"layers": fix.data.get("replacement", list(p["layers"]))}),
    ),
    "another key": wrong(TreeError, "in params", "['bias', 'layers']", "['b', 'layers']")(
        lambda: ({"layers": [{"w": ones(8, 4)}], "bias": ones(4)}, ones(8, 8)),
        replaced(
            0, lambda p, fix: dict(zip(fix.data["keys"], (p["bias"], p["layers"]), strict=True))
        ),
    ),
    "a tree instead of an array": wrong(TreeError, "in x", "a tuple of length 1")(
        lambda: (params(), (ones(8, 8),)), replaced(1, lambda x, fix: x[0])
    ),
    "an argument too many": wrong(TreeError, "the positional arguments", "length 4", "length 2")(
        lambda: (params(), ones(8, 8), 2, ones()),
        lambda args, fix: args[: fix.data["fixes"][0].data["length"]],
    ),
    "a name that is missing": wrong(TreeError, "the arguments by name", "['scale']")(
        lambda: (params(), ones(8, 8)),
        lambda args, fix: dict.fromkeys(fix.data["keys"], ones()),
        kwargs=dict,
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_calls_name_the_arguments_and_suggest_what_works(name):
    row = WRONG[name]
    compiled = row.compiled or COMPILED
    args, kwargs = row.args(), row.kwargs()
    for _ in range(2):
        with pytest.raises(row.error) as caught:
            compiled(*args, **kwargs)
    text = str(caught.value)
    missing = [phrase for phrase in row.phrases if phrase not in text]
    assert not missing, text
    assert "test_compiled_errors.py" in text
    fixed = row.apply(args, caught.value.fix)
    if fixed == "itself":
        assert {fix.kind for fix in caught.value.fix.data.get("fixes", (caught.value.fix,))} == {
            "lower"
        }
        for call in (JITTED, JITTED.lower(*args, 2, **kwargs).compile()):
            call(*args, n=2, **kwargs)
        return
    if isinstance(fixed, dict):
        kwargs = fixed
    else:
        args = fixed
    expected = ones(8, 8) @ ones(8, 4) * (2 * np.float64(kwargs["scale"])) + 1
    np.testing.assert_allclose(compiled(*args, **kwargs), expected)


def test_all_that_does_not_fit_is_said_at_once():
    wrong = params(weft.device_put(ones(8, 4), DEVICES[3]), ones(4, dtype=np.int32))
    with pytest.raises(WeftTypeError) as caught:
        COMPILED(wrong, ones(8, 7), scale=ones(1))
    fixes = {fix.data["path"]: fix.kind for fix in caught.value.fix.data["fixes"]}
    assert fixes == {
        "params['layers'][0]['w']": "device_put",
        "params['b']": "cast",
        "x": "lower",
        "scale": "lower",
    }
    for path in fixes:
        for part in (caught.value.got, caught.value.wanted, caught.value.fix.text):
            assert any(line.startswith(f"{path}: ") for line in part.splitlines())


@pytest.mark.parametrize("transform", [weft.grad, weft.vmap, weft.jit, weft.linearize])
def test_traced_values_are_refused_and_the_jitted_function_is_suggested(transform):
    f = weft.jit(lambda x: wnp.sum(x * x))
    compiled = f.lower(ones(3)).compile()
    x = ones(2, 3) if transform is weft.vmap else ones(3)

    def applied(g):
        return transform(g, x) if transform is weft.linearize else transform(g)(x)

    with pytest.raises(WeftTypeError, match="under a transformation") as caught:
        applied(lambda x: compiled(x))
    assert caught.value.fix.kind == "jit" and caught.value.fix.data["path"] == "x"
    applied(lambda x: f(x))


def test_what_a_weak_type_and_a_host_array_may_be():
    compiled = weft.jit(lambda x, y: x + y).lower(1.0, ones(3)).compile()
    for x in (2.0, np.float32(2), np.float64(2), wnp.asarray(2.0), np.asarray(2.0)):
        np.testing.assert_array_equal(compiled(x, ones(3)), [3, 3, 3])
    with pytest.raises(WeftTypeError, match="another dtype"):
        compiled(2, ones(3))
    with weft.enable_x64(), pytest.raises(WeftTypeError, match="f64"):
        compiled(2.0, ones(3))
    np.testing.assert_array_equal(compiled(2.0, ones(3)), [3, 3, 3])


def test_other_layouts_are_copied_where_that_was_asked_for():
    columns = weft.device_put(np.arange(6, dtype=np.float32).reshape(2, 3), COLUMNS)
    expected = np.arange(6).reshape(2, 3) + 1
    silent = weft.jit(lambda x: x + 1, relayout="auto").lower(ones(2, 3)).compile()
    np.testing.assert_array_equal(silent(columns), expected)
    telling = weft.jit(lambda x: x + 1, relayout="warn").lower(ones(2, 3)).compile()
    with pytest.warns(UserWarning, match="copied into another layout") as caught:
        np.testing.assert_array_equal(telling(columns), expected)
    assert caught[0].filename == __file__
    np.testing.assert_array_equal(telling(columns), expected)  # Told once.


def test_uncommitted_arguments_are_brought_where_the_program_takes_them():
    for x in (ones(8, 8), wnp.ones((8, 8)), weft.device_put(ones(8, 8), ROWS)):
        out = ON_ROWS(params(), x, scale=ones())
        np.testing.assert_allclose(out, ones(8, 8) @ ones(8, 4) * 2 + 1)
