"""What is wrong inside of a function under shard_map: reductions of what is equal already, casts,
collectives with arguments that do not fit, branches on values that differ, leaked blocks. Each
error names the user's line and suggests a fix, and with that fix applied the program gives the
right number.
"""

from __future__ import annotations

import numpy as np
import pytest

import weft
import weft.numpy as wnp
from weft import lax, shard_map
from weft.errors import (
    AxisError,
    ConcretizationError,
    LeakedTracerError,
    ShapeError,
    TracerArrayConversionError,
    TracerBoolConversionError,
    TracerIntegerConversionError,
    WeftTypeError,
    WeftValueError,
)
from weft.sharding import PartitionSpec as P
from wrong_programs import Table, check, marked

pytestmark = pytest.mark.fast

MESH = weft.make_mesh((4, 2), ("i", "j"))
X = np.arange(8, dtype=np.float32)
M = np.arange(32, dtype=np.float32).reshape(8, 4)
SUM_I = X.reshape(4, 2).sum(0)  # X summed over blocks along "i"
BY_I = P("i")
RING = [(0, 1), (1, 2), (2, 3), (3, 0)]
WRAPS = {"eager": lambda f: f, "jit": weft.jit}

case = CASES = Table()


def mapped(f, in_specs=BY_I, out_specs=BY_I, **how):
    return shard_map(f, **{"mesh": MESH, "in_specs": in_specs, "out_specs": out_specs, **how})


# ---- C1: reducing what is equal on all devices -------------------------------------------------

# Per collective: what it gives for blocks X[:2], X[2:4], ... along "i" that are equal along "j",
# once the collective is dropped, and once the copies are meant.
REDUCTIONS = {
    "psum": (lambda v, axes: lax.psum(v, axes), X, X * 2),  # here
    "pmean": (lambda v, axes: lax.pmean(v, axes), X, X),  # here
    "psum_scatter": (lambda v, axes: lax.psum_scatter(v, axes, tiled=True), X, X * 2),  # here
}


@pytest.mark.parametrize("wrap", WRAPS.values(), ids=WRAPS)
@pytest.mark.parametrize("name", REDUCTIONS)
def test_reducing_an_equal_value_has_two_readings(name, wrap):
    reduce, dropped, copies = REDUCTIONS[name]
    out = P(("i", "j")) if name == "psum_scatter" else P("i")

    def run(body, spec=BY_I):
        return wrap(mapped(body, P("i"), spec))(X)

    with pytest.raises(AxisError) as caught:
        run(lambda v: reduce(v, "j"), out)
    error = caught.value
    assert error.operation == name and "f32[2]{i}" in error.got
    assert error.message == (f"{name} over 'j' of a value that is equal on all devices along 'j'")
    assert f"drop the {name}" in error.fix.text and "2 equal copies" in error.fix.text
    assert f"{name}(lax.pbroadcast(x, 'j'), ...)" in error.fix.text
    assert marked(error.location, "# here")
    assert error.fix.data == {"axes": ("j",), "rest": ()}
    np.testing.assert_allclose(run(lambda v: v), dropped)
    axes = error.fix.data["axes"]
    np.testing.assert_allclose(run(lambda v: reduce(lax.pbroadcast(v, axes), axes), out), copies)


@pytest.mark.parametrize("wrap", WRAPS.values(), ids=WRAPS)
@pytest.mark.parametrize("spec, same", [(P("i"), ("j",)), (P(), ("i", "j"))], ids=str)
def test_reducing_over_two_axes(spec, same, wrap):
    """The error names those along which the value is equal already."""
    with pytest.raises(AxisError) as caught:
        wrap(mapped(lambda v: lax.psum(v.sum(), ("i", "j")), spec, P()))(X)  # here
    error = caught.value
    rest = tuple(axis for axis in ("i", "j") if axis not in same)
    assert error.fix.data == {"axes": same, "rest": rest}
    assert ("call psum over ('i',) only" if rest else "drop the psum") in error.fix.text

    def dropped(v):
        return lax.psum(v.sum(), error.fix.data["rest"])

    def copies(v):
        return lax.psum(lax.pbroadcast(v.sum(), error.fix.data["axes"]), ("i", "j"))

    assert float(wrap(mapped(dropped, spec, P()))(X)) == 28.0
    count = {("j",): 2, ("i", "j"): 8}[same]
    assert float(wrap(mapped(copies, spec, P()))(X)) == 28.0 * count


@pytest.mark.parametrize("wrap", WRAPS.values(), ids=WRAPS)
def test_the_mean_of_a_gradient_that_is_summed_already(wrap):
    """The gradient with respect to replicated weights arrives summed: a mean would be wrong by the
    number of devices, and silently so where types are not asked."""

    def step(average):
        def block(w, v):
            return average(weft.grad(lambda w: ((w * v) ** 2).mean())(w))

        return wrap(mapped(block, (P(), P("i")), P()))(np.float32(3.0), X)

    with pytest.raises(AxisError) as caught:
        step(lambda g: lax.pmean(g, "i"))  # here
    assert caught.value.message.startswith("pmean over 'i' of a value that is equal")
    alone = 2 * 3.0 * (X.reshape(4, 2) ** 2).mean(1).sum()
    np.testing.assert_allclose(step(lambda g: g), alone, rtol=1e-6)


# ---- casts -------------------------------------------------------------------------------------


for how, wrap in WRAPS.items():
    case(
        f"operands that vary differently, casts explicit, {how}",
        AxisError,
        "auto_pbroadcast=False",
        "f32[2]{i}, f32[2]",
        "lax.pbroadcast",
    )(
        wrong=lambda wrap=wrap: wrap(
            mapped(
                lambda v, w: v + w,  # here
                (P("i"), P()),
                auto_pbroadcast=False,
            )
        )(X, X[:2]),
        fixed=lambda fix, wrap=wrap: wrap(
            mapped(
                lambda v, w: v + lax.pbroadcast(w, fix.data["axes"]),
                (P("i"), P()),
                auto_pbroadcast=False,
            )
        )(X, X[:2]),
        value=X + np.tile(X[:2], 4),
    )
    case(
        f"gathering what is equal, casts explicit, {how}",
        AxisError,
        "all_gather takes a value that varies",
        "auto_pbroadcast=False",
    )(
        wrong=lambda wrap=wrap: wrap(
            mapped(
                lambda v: lax.all_gather(v, "i")[0],  # here
                P(),
                auto_pbroadcast=False,
            )
        )(X),
        fixed=lambda fix, wrap=wrap: wrap(
            mapped(
                lambda v: lax.all_gather(lax.pbroadcast(v, fix.data["axes"]), "i")[0],
                P(),
                auto_pbroadcast=False,
            )
        )(X),
        value=np.tile(X, 4),
    )
case("a cast of what varies", AxisError, "pbroadcast takes a value that is equal", "f32[2]{i}")(
    wrong=lambda: mapped(lambda v: lax.pbroadcast(v, ("i", "j")), P("i"), P("i"))(X),  # here
    fixed=lambda fix: mapped(
        lambda v: lax.psum(lax.pbroadcast(v, tuple({"i", "j"} - set(fix.data["axes"]))), "j")
    )(X),
    value=X * 2,
)
case("a cast to equal", WeftValueError, "pcast does not cast to 'invariant'", "lax.pmax(x, 'i')")(
    wrong=lambda: mapped(lambda v: lax.pcast(v, "i", to="invariant"), P("i"), P())(X),  # here
    fixed=lambda fix: mapped(lambda v: lax.pmax(v, "i"), P("i"), P())(X),
    value=[6, 7],
)
case("scattering what differs", AxisError, "pscatter takes a value that is equal", "psum_scatter")(
    wrong=lambda: mapped(lambda v: lax.pscatter(v[:, 0], "i", tiled=True), P(None, "i"))(M),  # here
    fixed=lambda fix: mapped(
        lambda v: lax.psum_scatter(v[:, 0], fix.data["axes"], tiled=True), P(None, "i")
    )(M),
    value=M.sum(1),
)


# ---- arguments of collectives ------------------------------------------------------------------


case("pairs that send twice", WeftValueError, "no partial permutation", "(0, 1), (0, 2)")(
    wrong=lambda: mapped(lambda v: lax.ppermute(v, "i", [(0, 1), (0, 2)]))(X),  # here
    fixed=lambda fix: mapped(lambda v: lax.ppermute(v, "i", fix.data["perm"]))(X),
    value=[0, 0, 0, 1, 0, 0, 0, 0],
)
case("pairs out of range", WeftValueError, "0 to 3")(
    wrong=lambda: mapped(lambda v: lax.ppermute(v, "i", [(3, 0), (2, 4)]))(X),  # here
    fixed=lambda fix: mapped(lambda v: lax.ppermute(v, "i", fix.data["perm"]))(X),
    value=[6, 7, 0, 0, 0, 0, 0, 0],
)
case("positions in place of pairs", WeftValueError, "(source, target) pairs")(
    wrong=lambda: mapped(lambda v: lax.ppermute(v, "i", [1, 2, 3, 0]))(X),  # here
    fixed=lambda fix: mapped(lambda v: lax.ppermute(v, "i", fix.data["perm"]))(X),
    value=np.roll(X, 2),
)
case("a shuffle of some positions", WeftValueError, "each of 0 to 3 once")(
    wrong=lambda: mapped(lambda v: lax.pshuffle(v, "i", [1, 0]))(X),  # here
    fixed=lambda fix: mapped(lambda v: lax.ppermute(v, "i", [(1, 0), (0, 1)]))(X),
    value=[2, 3, 0, 1, 0, 0, 0, 0],
)
case("all_to_all of another length", ShapeError, "length 8 for an axis of length 4", "tiled=True")(
    wrong=lambda: mapped(lambda v: lax.all_to_all(v, "i", 0, 1), P(None, "i"))(M),  # here
    fixed=lambda fix: mapped(
        lambda v: lax.all_to_all(v, "i", 0, 1, **fix.data), P(None, "i"), P("i")
    )(M),
    value=M,
)
case("all_to_all that does not divide", ShapeError, "does not split into 4 equal parts")(
    wrong=lambda: mapped(lambda v: lax.all_to_all(v, "i", 0, 0, tiled=True))(X),  # here
    fixed=lambda fix: mapped(
        lambda v: lax.all_to_all(wnp.pad(v, (0, fix.data["multiple"] - 2)), "i", 0, 0, tiled=True)
    )(X),
    value=[0, 2, 4, 6, 1, 3, 5, 7] + [0] * 8,
)
case("psum_scatter of another length", ShapeError, "length 8 for an axis of length 4")(
    wrong=lambda: mapped(lambda v: lax.psum_scatter(v[:, 0], "i"), P(None, "i"))(M),  # here
    fixed=lambda fix: mapped(
        lambda v: lax.psum_scatter(v[:, 0], "i", **fix.data), P(None, "i"), P("i")
    )(M),
    value=M.sum(1),
)
case("psum_scatter that does not divide", ShapeError, "multiple of 4")(
    wrong=lambda: mapped(lambda v: lax.psum_scatter(v, "i", tiled=True))(X),  # here
    fixed=lambda fix: mapped(
        lambda v: lax.psum_scatter(wnp.pad(v, (0, -2 % fix.data["multiple"])), "i", tiled=True)
    )(X),
    value=[12, 16, 0, 0],
)
case("pscatter that does not divide", ShapeError, "multiple of 4")(
    wrong=lambda: mapped(lambda v: lax.pscatter(v, "i", tiled=True), P())(X[:6]),  # here
    fixed=lambda fix: mapped(
        lambda v: lax.pscatter(wnp.pad(v, (0, -6 % fix.data["multiple"])), "i", tiled=True), P()
    )(X[:6]),
    value=[0, 1, 2, 3, 4, 5, 0, 0],
)
case("groups of different sizes", WeftValueError, "[[0, 1], [2]]", "groups of equal size")(
    wrong=lambda: mapped(
        lambda v: lax.psum(v, "i", axis_index_groups=[[0, 1], [2]])  # here
    )(X),
    fixed=lambda fix: mapped(lambda v: lax.psum(v, "i", **fix.data))(X),
    value=[2, 4, 2, 4, 10, 12, 10, 12],
)
case("groups that are none", WeftValueError, "[0, 1, 2, 3]")(
    wrong=lambda: mapped(
        lambda v: lax.pmax(v, "i", axis_index_groups=[0, 1, 2, 3])  # here
    )(X),
    fixed=lambda fix: mapped(lambda v: lax.pmax(v, "i", **fix.data))(X),
    value=[2, 3, 2, 3, 6, 7, 6, 7],
)
case("groups over two axes", WeftValueError, "over one axis")(
    wrong=lambda: mapped(
        lambda v: lax.psum(v, ("i", "j"), axis_index_groups=[[0, 1], [2, 3]]),  # here
        P(("i", "j")),
    )(X),
    fixed=lambda fix: mapped(lambda v: lax.psum(v, ("i", "j")), P(("i", "j")), P())(X),
    value=[28],
)
case("an axis named twice", AxisError, "given twice")(
    wrong=lambda: mapped(lambda v: lax.psum(v, ("i", "i")), P("i"), P())(X),  # here
    fixed=lambda fix: mapped(lambda v: lax.psum(v, fix.data["names"]), P("i"), P())(X),
    value=SUM_I,
)


# ---- conditions that differ between devices ----------------------------------------------------


def branching(agree):
    def body(v):
        return lax.cond(agree(v.sum() > 3), ring, same, v)  # here

    return body


def ring(v):
    return lax.ppermute(v, "i", RING)


def same(x):
    return x


def looping(agree):
    def body(v):
        return lax.while_loop(lambda u: agree(u.sum() < 30), lambda u: ring(u) + 4, v)  # here

    return body


def looped(x):
    """What `looping` computes where all devices go on until the last one is done."""
    blocks = x.reshape(4, 2)
    while (blocks.sum(1) < 30).any():
        blocks = np.roll(blocks, 1, 0) + 4
    return blocks.reshape(-1)


def chosen(agree):
    def body(v):
        which = agree(lax.axis_index("i"))
        return lax.switch(which, [same, ring, same, lambda u: ring(u) * 2], v)  # here

    return body


for how, wrap in WRAPS.items():
    case(
        f"communication in a branch that some take, {how}",
        AxisError,
        "devices decide differently",
        "varies along ['i']",
        "ppermute over ('i',)",
        "lax.pmax(condition, 'i')",
    )(
        wrong=lambda wrap=wrap: wrap(mapped(branching(same)))(X),
        fixed=lambda fix, wrap=wrap: wrap(
            mapped(branching(lambda c: lax.pmax(c, fix.data["axes"])))
        )(X),
        value=np.roll(X, 2),
    )
    case(
        f"communication in a loop that some leave earlier, {how}",
        AxisError,
        "devices decide differently",
        "ppermute over ('i',)",
    )(
        wrong=lambda wrap=wrap: wrap(mapped(looping(same)))(X),
        fixed=lambda fix, wrap=wrap: wrap(mapped(looping(lambda c: lax.pmax(c, fix.data["axes"]))))(
            X
        ),
        value=looped(X),
    )
    case(f"communication in a switch, {how}", AxisError, "devices decide differently")(
        wrong=lambda wrap=wrap: wrap(mapped(chosen(same)))(X),
        fixed=lambda fix, wrap=wrap: wrap(mapped(chosen(lambda c: lax.pmax(c, fix.data["axes"]))))(
            X
        ),
        value=np.roll(X, 2) * 2,
    )


# ---- Python asks for the value of one that differs ---------------------------------------------

ASKING = {
    "if": (TracerBoolConversionError, lambda s: 2.0 if s > 3 else 1.0, [2, 2, 2, 2]),
    "float": (ConcretizationError, lambda s: float(s), [13] * 4),
    "int": (TracerIntegerConversionError, lambda s: int(s), [13] * 4),
    "index": (TracerIntegerConversionError, lambda s: range(99)[s.astype(int)], [13] * 4),
    "asarray": (TracerArrayConversionError, lambda s: np.asarray(s), [13] * 4),
    "item": (ConcretizationError, lambda s: s.item(), [13] * 4),
    "tolist": (ConcretizationError, lambda s: s.tolist(), [13] * 4),
    "and": (TracerBoolConversionError, lambda s: s > 3 and 1.0, [1] * 4),
    "numpy": (TracerArrayConversionError, lambda s: np.maximum(np.asarray(s), 5), [13] * 4),
}


@pytest.mark.parametrize("name", ASKING)
def test_values_that_differ_have_no_single_value(name):
    """The error shows every device's value and says over which axes they differ."""
    kind, ask, expected = ASKING[name]

    def run(agree):
        def body(v):
            return lax.pbroadcast(wnp.asarray(ask(agree(v.sum()))), "i")[None]

        return mapped(body)(X)

    with pytest.raises(kind) as caught:
        run(same)
    error = caught.value
    assert "differs between devices over 'i'" in error.message
    assert "test_shard_map_body_errors.py" in error.location
    for place, value in enumerate((1, 5, 9, 13)):
        shown = f"i={place}: {value > 3}" if name in ("if", "and") else f"i={place}: {value}"
        assert shown in error.got
    assert "lax.pmax" in error.fix.text
    np.testing.assert_allclose(run(lambda s: lax.pmax(s, error.fix.data["axes"])), expected)


def test_a_branch_on_a_value_that_differs_over_two_axes():
    def run(agree):
        return mapped(
            lambda v: v if agree(v.sum() > 3) else -v,  # here
            P(("i", "j")),
            P(("i", "j")),
        )(X)

    with pytest.raises(TracerBoolConversionError) as caught:
        run(same)
    error = caught.value
    assert "differs between devices over 'i', 'j'" in error.message
    assert "i=1, j=1: False" in error.got and "i=2, j=0: True" in error.got
    assert marked(error.location, "# here") and error.fix.data["axes"] == ("i", "j")
    np.testing.assert_array_equal(run(lambda c: lax.pmax(c, error.fix.data["axes"])), X)


def test_a_branch_on_a_traced_value_names_the_axes_in_its_type():
    with pytest.raises(TracerBoolConversionError) as caught:
        weft.jit(mapped(lambda v: v if v.sum() > 3 else -v))(X)  # here
    assert "bool[]{i}" in caught.value.message and marked(caught.value.location, "# here")
    out = weft.jit(mapped(lambda v: wnp.where(v.sum() > 3, v, -v)))(X)
    np.testing.assert_array_equal(out, [0, -1, 2, 3, 4, 5, 6, 7])


# ---- what goes in and comes out ----------------------------------------------------------------


class Holder:
    """An object that weft does not look into."""

    value: object = None


def leaking(wrap):
    kept = []

    def body(v):
        kept.append(v * 2)
        return v

    wrap(mapped(body))(X)
    return kept[0] + 1  # here


def kept_for_another():
    kept = []
    mapped(lambda v: kept.append(v) or v)(X)
    return mapped(lambda v: v + kept[0])(X)  # here


for how, wrap in WRAPS.items():
    case(
        f"a leaked block, {how}",
        LeakedTracerError,
        "escaped from shard_map of body",
        "'kept'",
        "f32[2]{i}",
    )(
        wrong=lambda wrap=wrap: leaking(wrap),
        fixed=lambda fix, wrap=wrap: wrap(mapped(lambda v: v * 2))(X) + 1,
        value=X * 2 + 1,
    )
case("a leaked block in another shard_map", LeakedTracerError, "escaped from shard_map", "'kept'")(
    wrong=kept_for_another,
    fixed=lambda fix: mapped(lambda v, u: v + u)(X, mapped(lambda v: v)(X)),
    value=X * 2,
)
case("a text as an argument", WeftTypeError, "mode is no array", "'double' of class str")(
    wrong=lambda: mapped(lambda v, mode: v * 2, (P("i"), P()))(X, "double"),  # here
    fixed=lambda fix: mapped(lambda v, mode: v * 2, (P("i"), None))(X, "double"),
    value=X * 2,
)
case("an object in a tree of arguments", WeftTypeError, "p['k'] is no array", "of class Holder")(
    wrong=lambda: mapped(lambda p: p["v"])({"v": X, "k": Holder()}),  # here
    fixed=lambda fix: mapped(lambda p: p["v"])({"v": X}),
    value=X,
)


@pytest.mark.parametrize("wrap", WRAPS.values(), ids=WRAPS)
def test_a_result_that_is_no_array(wrap):
    with pytest.raises(WeftTypeError) as caught:
        wrap(mapped(lambda v: (v, {"kind": "text"})))(X)  # here
    assert "['kind']" in caught.value.message and "'text' of class str" in caught.value.got
    assert marked(caught.value.location, "# here")
    out = wrap(mapped(lambda v: (v, {"kind": v * 0}), P("i"), P("i")))(X)
    np.testing.assert_array_equal(out[1]["kind"], X * 0)


@pytest.mark.parametrize("name", CASES)
def test_wrong_program(name):
    check(CASES[name])
