"""The example of a partitioned transformer: every version against a loop in NumPy's float64."""

from __future__ import annotations

import importlib.util
import re
import sys

import numpy as np
import pytest

import weft
from source_files import ROOT

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
    sizes = example.Sizes(layers=2, embed=16, ff=32, heads=16, qkv=4)
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
    # Both products send halves of their blocks up and down the ring of x, one step less than it
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
