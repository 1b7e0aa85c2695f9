"""The example of a partitioned transformer: every version against a loop in NumPy's float64, and
its two collective products against plain ones."""

from __future__ import annotations

import importlib.util
import re
import sys
from functools import partial

import numpy as np
import pytest

import weft
import weft.numpy as jnp
from source_files import ROOT
from weft import lax
from weft.sharding import PartitionSpec as P

EXAMPLE = ROOT / "examples" / "transformer_inference.py"
BATCH, PROMPT, STEPS = 8, 3, 2


@pytest.fixture(scope="module")
def example():
    spec = importlib.util.spec_from_file_location("transformer_inference", EXAMPLE)
    module = importlib.util.module_from_spec(spec)
    sys.modules["transformer_inference"] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules["transformer_inference"]


# ---- the model -----------------------------------------------------------------------------------


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def model_in_numpy(weights, xs, qkv):
    """All tokens at once, head by head and without a cache, in float64."""
    xs = np.float64(xs)
    time = xs.shape[1]
    angles = np.arange(time)[:, None] * 1e4 ** (-np.arange(qkv // 2) / (qkv // 2))
    turns = np.exp(1j * angles)

    def rotated(x):
        turned = (x[..., : qkv // 2] + 1j * x[..., qkv // 2 :]) * turns
        return np.concatenate([turned.real, turned.imag], -1)

    for q_wi, kv, o_wo in zip(*map(np.float64, weights), strict=True):
        centred = xs - xs.mean(-1, keepdims=True)
        normed = centred / np.sqrt(xs.var(-1, keepdims=True) + 1e-6)
        key, value = rotated(normed @ kv[:, :qkv]), normed @ kv[:, qkv:]
        added = np.zeros_like(xs)
        for head_in, head_out in zip(q_wi, o_wo, strict=True):
            inner = normed @ head_in
            scores = rotated(inner[..., :qkv]) @ key.swapaxes(1, 2) / np.sqrt(qkv)
            scores[:, ~np.tri(time, dtype=bool)] = -np.inf
            gate, linear = np.split(inner[..., qkv:], 2, axis=-1)
            mlp = gate / (1 + np.exp(-gate)) * linear
            added += np.concatenate([softmax(scores) @ value, mlp], -1) @ head_out
        xs = xs + added
    return xs


@pytest.fixture(scope="module")
def given(example):
    sizes = example.Sizes(layers=2, embed=16, ff=32, heads=8, qkv=4)
    weights = example.init(sizes, seed=3)
    tokens = np.random.default_rng(4).standard_normal((BATCH, PROMPT + STEPS, sizes.embed))
    tokens = tokens.astype(np.float32)
    cache = example.empty_cache(sizes, BATCH, PROMPT + STEPS)
    expected = model_in_numpy(weights, tokens, sizes.qkv)
    return (weights, cache, tokens[:, :PROMPT], tokens[:, PROMPT:]), expected


def check(found, expected):
    assert [x.shape[1] for x in found.outs] == [PROMPT] + [1] * STEPS
    np.testing.assert_allclose(np.concatenate(found.outs, 1), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.smoke
def test_one_device(example, given):
    found = example.run(example.automatic(None), *given[0])
    check(found, given[1])
    assert example.communication(found.text) == {}


@pytest.mark.parametrize("shape", [(4, 2, 1), (2, 2, 2)])
def test_partitioned_by_the_compiler(example, given, shape):
    mesh = weft.make_mesh(shape, ("x", "y", "z"))
    found = example.run(example.automatic(mesh), *given[0])
    check(found, given[1])
    assert example.communication(found.text)


@pytest.mark.parametrize("shape", [(4, 2, 1), (2, 2, 2), (8, 1, 1), (1, 2, 4)])
def test_partitioned_by_hand(example, given, shape):
    mesh = weft.make_mesh(shape, ("x", "y", "z"))
    found = example.run(example.manual(mesh), *given[0])
    check(found, given[1])
    # Both products send halves of their pieces up and down the ring of x, one step less than it
    # has devices. What else is permuted, the compiler chose for attention.
    permuted, _ = example.communication(found.text).get("collective-permute", (0, 0))
    assert permuted >= 4 * (shape[0] - 1)


def test_by_hand_the_products_send_less(example, given):
    mesh = weft.make_mesh((4, 2, 1), ("x", "y", "z"))
    sent = {}
    for make in (example.automatic, example.manual):
        kinds = example.communication(example.run(make(mesh), *given[0]).text)
        sent[make.__name__] = sum(size for _, size in kinds.values())
    assert sent["manual"] < sent["automatic"]


def test_a_prompt_at_once_or_token_by_token(example, given):
    weights, cache, prompt, tokens = given[0]
    every = np.concatenate([prompt, tokens], 1)
    found = example.run(example.automatic(None), weights, cache, every[:, :1], every[:, 1:])
    np.testing.assert_allclose(np.concatenate(found.outs, 1), given[1], rtol=1e-4, atol=1e-4)


# ---- the collective products ---------------------------------------------------------------------


@pytest.fixture(scope="module", params=[2, 4, 8])
def products(request, example):
    """Each product over a ring, with its operands and what it stands for."""
    n = request.param
    mesh = weft.make_mesh((n,), ("x",))
    rng = np.random.default_rng(n)
    x, w = rng.standard_normal((3, 2, 16)), rng.standard_normal((16, 16, 5))
    y, v = rng.standard_normal((3, 2, 16, 6)), rng.standard_normal((16, 6, 8))

    def of(function, in_specs, out_specs):
        return weft.shard_map(function, mesh=mesh, in_specs=in_specs, out_specs=out_specs)

    rows, heads, columns = P(None, None, "x"), P(None, "x"), P(None, None, "x")
    return n, {
        "reduce-scatter": (
            of(partial(example.product_reduce_scatter, axis="x"), (rows, heads), columns),
            (x, w),
            "bte,hed->bthd",
            of(
                lambda x, w: lax.psum_scatter(
                    jnp.einsum("bte,hed->bthd", x, w), "x", scatter_dimension=2, tiled=True
                ),
                (rows, heads),
                columns,
            ),
        ),
        "all-gather": (
            of(partial(example.gather_product, axis="x"), (rows, columns), columns),
            (y, v),
            "bthd,hde->bte",
            of(
                lambda y, v: jnp.einsum(
                    "bthd,hde->bte", lax.all_gather(y, "x", axis=2, tiled=True), v
                ),
                (rows, columns),
                columns,
            ),
        ),
    }


NAMES = ["reduce-scatter", "all-gather"]


@pytest.mark.parametrize("name", NAMES)
def test_a_collective_product_is_the_product(products, example, name):
    n, cases = products
    collective, args, subscripts, plain = cases[name]
    expected = np.einsum(subscripts, *args)
    args = [np.float32(a) for a in args]
    for found in (collective(*args), weft.jit(collective)(*args), plain(*args)):
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)
    kinds = [example.communication(weft.jit(f).lower(*args).compile().as_text())
             for f in (collective, plain)]  # fmt: skip
    assert {kind: count for kind, (count, _) in kinds[0].items()} == {
        "collective-permute": 2 * (n - 1)
    }
    assert {kind: count for kind, (count, _) in kinds[1].items()} == {name: 1}


@pytest.mark.parametrize("name", NAMES)
def test_the_gradient_of_a_collective_product(products, name):
    _, cases = products
    collective, args, subscripts, _ = cases[name]
    weights = np.random.default_rng(0).standard_normal(np.einsum(subscripts, *args).shape)
    ins, out = subscripts.split("->")
    a, b = ins.split(",")
    expected = (
        np.einsum(f"{out},{b}->{a}", weights, args[1]),
        np.einsum(f"{out},{a}->{b}", weights, args[0]),
    )
    found = weft.jit(
        weft.grad(lambda *args: jnp.sum(collective(*args) * np.float32(weights)), argnums=(0, 1))
    )(*map(np.float32, args))
    for f, e in zip(found, expected, strict=True):
        np.testing.assert_allclose(f, e, rtol=1e-4, atol=1e-4)


def behind(jaxpr, first):
    """The names of primitives whose results depend on one of `first`."""
    reached, found = set(), set()
    for eqn in jaxpr.eqns:
        if any(id(x) in reached for x in eqn.inputs):
            found.add(eqn.primitive.name)
        elif eqn.primitive.name != first:
            continue
        reached.update(map(id, eqn.outputs))
    return found


def test_products_and_communication_do_not_wait_for_one_another(products):
    _, cases = products
    bodies = {}
    for name in NAMES:
        collective, args, *_ = cases[name]
        (eqn,) = weft.make_jaxpr(collective)(*map(np.float32, args)).jaxpr.eqns
        bodies[name] = eqn.params["jaxpr"]
        names = [inner.primitive.name for inner in bodies[name].eqns]
        assert "ppermute" in names and "dot_general" in names
    # Sums travel while the next product is computed: no product needs what has travelled.
    assert "dot_general" not in behind(bodies["reduce-scatter"], "ppermute")
    # Pieces travel while those before are multiplied: nothing sent needs a product.
    assert "ppermute" not in behind(bodies["all-gather"], "dot_general")


# ---- the program ---------------------------------------------------------------------------------


def test_communication_is_read_from_a_compiled_program(example):
    text = """
  %a = f32[2,3]{1,0} all-gather(%x), channel_id=1, dimensions={0}
  %b = (bf16[8]{0}, s32[]) all-reduce-start(%a, %c), to_apply=%sum
  ROOT %all-reduce.4 = f32[]{:T(128)} all-reduce(%all-reduce.3), to_apply=%sum
  %d = f32[9]{0} add(%all-gather.1, %y)
  %e = pred[5]{0} collective-permute(%d), source_target_pairs={{0,1}}
"""
    assert example.communication(text) == {
        "all-gather": (1, 24),
        "all-reduce": (2, 16 + 4 + 4),
        "collective-permute": (1, 5),
    }


SMALL = ["--layers", "1", "--embed", "16", "--ff", "16", "--heads", "8", "--qkv", "4",
         "--batch", "8", "--prompt", "2", "--steps", "2"]  # fmt: skip


def test_the_program_prints_time_differences_and_communication(example, capsys):
    assert example.main(SMALL) == 0
    shown = capsys.readouterr().out
    assert "Mesh('x': 4, 'y': 2, 'z': 1)" in shown
    for name in ("automatic", "manual"):
        off = re.search(rf"{name}: [\d.]+ ms per step, at most (\S+) from one device", shown)[1]
        assert float(off) < 1e-5
    assert len(re.findall(r"in all +\d+ per layer and step, +[\d.]+ KiB", shown)) == 2


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--batch", "12"], "--batch 12 is no multiple of 8"),
        (["--heads", "4"], "--heads 4 is no multiple of 8"),
        (["--qkv", "3"], "--qkv 3 is no multiple of 2"),
        (["--ff", "20"], "--ff 20 is no multiple of 8"),
        (["--mesh", "2,2"], "'2,2' is not three numbers"),
        (["--steps", "0"], "'0' is not a whole number from 1 up"),
    ],
)
def test_malformed_options_are_refused(example, more, message, capsys):
    with pytest.raises(SystemExit) as stopped:
        example.main(SMALL + more)
    assert stopped.value.code == 2
    assert message in capsys.readouterr().err


def test_too_few_devices(example, capsys):
    many = ["--mesh", "4,4,1", "--batch", "16", "--heads", "16", "--ff", "16"]
    assert example.main(SMALL + many) == 2
    assert "WEFT_NUM_CPU_DEVICES=16" in capsys.readouterr().err
