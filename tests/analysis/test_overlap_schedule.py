"""Which transfers may run beside which products: compiled layers, and schedules counted by hand."""

from __future__ import annotations

import numpy as np
import pytest

import weft
import weft.numpy as jnp
from weft import lax, nn, shard_map
from weft.analysis.overlap import schedule
from weft.errors import WeftValueError
from weft.sharding import PartitionSpec as P

SPECS = (P("i"), P(None, "i"), P("i"))


def layer(x, w1, w2):
    h = nn.gelu(nn.gathered_product("sd,df->sf", x, w1, "i", gathered="s"))
    return nn.scattered_product("sf,fd->sd", h, w2, "i", scattered="s")


def layer_both_ways(x, w1, w2):
    how = {"bidirectional": True}
    h = nn.gelu(nn.gathered_product("sd,df->sf", x, w1, "i", gathered="s", **how))
    return nn.scattered_product("sf,fd->sd", h, w2, "i", scattered="s", **how)


def plain_layer(x, w1, w2):
    h = nn.gelu(lax.all_gather(x, "i", tiled=True) @ w1)
    return lax.psum_scatter(h @ w2, "i", tiled=True)


def compiled(function, count, gradient=False):
    mesh = weft.make_mesh((count,), ("i",), devices=weft.devices()[:count])
    run = shard_map(function, mesh=mesh, in_specs=SPECS, out_specs=P("i"))
    if gradient:
        whole = run
        run = weft.grad(lambda *args: jnp.sum(jnp.sin(whole(*args))), (0, 1, 2))
    rng = np.random.default_rng(0)
    args = [rng.normal(size=shape).astype("float32") for shape in ((64, 32), (32, 64), (64, 32))]
    return weft.jit(run).lower(*args).compile()


@pytest.mark.parametrize("count", [2, 4, 8])
def test_each_transfer_of_a_layer_may_run_beside_a_product_of_its_own(count):
    found = schedule(compiled(layer, count))
    assert [t.kind for t in found.transfers] == ["collective_permute"] * 2 * (count - 1)
    assert len(found.products) == 2 * count and not found.exposed
    partners = [t.beside.number for t in found.transfers]
    assert len(set(partners)) == len(partners)
    # The block of the first product, and of the second one's result, in float32.
    assert {t.bytes for t in found.transfers} == {64 // count * 32 * 4}
    assert all("in layer" in t.line and "in layer" in t.beside.line for t in found.transfers)


@pytest.mark.parametrize("count", [2, 4, 8])
def test_each_transfer_of_a_gradient_may_run_beside_a_product_of_its_own(count):
    found = schedule(compiled(layer, count, gradient=True))
    assert [t.kind for t in found.transfers] == ["collective_permute"] * 5 * (count - 1)
    assert len(found.products) == 6 * count and not found.exposed


def test_blocks_in_halves_may_run_beside_products_too():
    found = schedule(compiled(layer_both_ways, 4))
    assert len(found.transfers) == 4 * 3 and len(found.products) == 4 * 4 and not found.exposed


def test_plain_collectives_have_no_product_beside_them():
    found = schedule(compiled(plain_layer, 8))
    assert [t.kind for t in found.transfers] == ["all_gather", "reduce_scatter"]
    assert len(found.exposed) == 2
    assert str(found).startswith("2 transfers, 2 products; 0 of the transfers may run beside")


def test_the_first_transfer_of_a_layer_stands_before_a_product_in_the_compiled_order():
    # On a CPU the compiler's order is by what is ready first, and transfers are synchronous.
    first = schedule(compiled(layer, 8)).transfers[0]
    assert first.between and first.between[0] == first.beside


# ---- by hand -------------------------------------------------------------------------------------

HEAD = "HloModule m, is_scheduled=true, num_partitions=2\n\n"
PAIRS = "source_target_pairs={{0,1},{1,0}}"


def program(*lines, head=HEAD, around=""):
    body = "\n".join(f"  {line}" for line in lines)
    return f"{head}{around}ENTRY %main (x: f32[4,4]) -> f32[4,4] {{\n{body}\n}}\n"


X = "%x = f32[4,4]{1,0} parameter(0)"


def beside(text):
    return [t.beside and t.beside.number for t in schedule(text).transfers]


def test_a_product_that_waits_for_a_transfer_is_not_beside_it():
    sent = f"%y = f32[4,4]{{1,0}} collective-permute(%x), {PAIRS}"
    needs = program(X, sent, "ROOT %p = f32[4,4]{1,0} dot(%y, %y)")
    assert beside(needs) == [None]
    feeds = program(X, "%p = f32[4,4]{1,0} dot(%x, %x)", f"ROOT {sent.replace('(%x)', '(%p)')}")
    assert beside(feeds) == [None]


def test_one_product_hides_one_transfer():
    text = program(
        X,
        f"%y = f32[4,4]{{1,0}} collective-permute(%x), {PAIRS}",
        f"%z = f32[4,4]{{1,0}} collective-permute(%x), {PAIRS}",
        "%p = f32[4,4]{1,0} dot(%x, %x)",
        "%s = f32[4,4]{1,0} add(%y, %z)",
        "ROOT %r = f32[4,4]{1,0} add(%s, %p)",
    )
    assert beside(text) == [1, None]


def test_pairs_fit_into_one_schedule():
    # y does not need p, nor z q; but p needs z, and q needs y. So one of y and z has to run first,
    # while no product can.
    text = program(
        X,
        f"%y = f32[4,4]{{1,0}} collective-permute(%x), {PAIRS}",
        f"%z = f32[4,4]{{1,0}} collective-permute(%x), {PAIRS}",
        "%p = f32[4,4]{1,0} dot(%z, %z)",
        "%q = f32[4,4]{1,0} dot(%y, %y)",
        "ROOT %r = f32[4,4]{1,0} add(%p, %q)",
    )
    assert beside(text) == [None, 2]


def test_asynchronous_transfers_last_from_start_to_done():
    text = program(
        X,
        f"%start = (f32[4,4]{{1,0}}, f32[4,4]{{1,0}}) collective-permute-start(%x), {PAIRS}",
        "%p = f32[4,4]{1,0} dot(%x, %x)",
        "%done = f32[4,4]{1,0} collective-permute-done(%start)",
        "%q = f32[4,4]{1,0} dot(%x, %p)",
        "ROOT %r = f32[4,4]{1,0} add(%done, %q)",
    )
    [found] = schedule(text).transfers
    assert (found.kind, found.bytes, found.beside.number) == ("collective_permute", 64, 1)
    assert [product.number for product in found.between] == [1]


INNER = """%wrapped (a: f32[4,4]) -> f32[2,4] {
  %a = f32[4,4]{1,0} parameter(0)
  ROOT %b = f32[2,4]{1,0} reduce-scatter(%a), dimensions={0}, to_apply=%add
}

%fused (a: f32[4,4]) -> f32[4,4] {
  %a = f32[4,4]{1,0} parameter(0)
  ROOT %b = f32[4,4]{1,0} dot(%a, %a)
}

"""


def test_wrapped_transfers_fusions_and_custom_calls_are_known():
    text = program(
        X,
        "%start = ((f32[4,4]{1,0}), f32[2,4]{1,0}, u32[]) async-start(%x), calls=%wrapped",
        "%p = f32[4,4]{1,0} fusion(%x), kind=kCustom, calls=%fused",
        '%q = f32[4,4]{1,0} custom-call(%x, %x), custom_call_target="__cublas$gemm"',
        '%o = f32[4,4]{1,0} custom-call(%x), custom_call_target="Sharding"',
        "%done = f32[2,4]{1,0} async-done(%start)",
        "ROOT %r = f32[4,4]{1,0} add(%p, %q)",
        around=INNER,
    )
    found = schedule(text)
    assert [t.kind for t in found.transfers] == ["reduce_scatter"]
    assert len(found.products) == 2
    assert [product.number for product in found.transfers[0].between] == [1, 2]


LOOP = f"""%body (a: f32[4,4]) -> f32[4,4] {{
  %a = f32[4,4]{{1,0}} parameter(0)
  %b = f32[4,4]{{1,0}} collective-permute(%a), {PAIRS}
  %c = f32[4,4]{{1,0}} dot(%a, %a)
  ROOT %d = f32[4,4]{{1,0}} add(%b, %c)
}}

%test (a: f32[4,4]) -> pred[] {{
  %a = f32[4,4]{{1,0}} parameter(0)
  ROOT %t = pred[] constant(true)
}}

"""


def test_loops_that_communicate_are_looked_into():
    text = program(X, "ROOT %w = f32[4,4]{1,0} while(%x), condition=%test, body=%body", around=LOOP)
    found = schedule(text)
    assert len(found.products) == 1
    assert beside(text) == [1]
    # One that does not communicate is one product in the program around it.
    silent = text.replace(f"collective-permute(%a), {PAIRS}", "copy(%a)")
    assert len(schedule(silent).products) == 1 and not schedule(silent).transfers


def test_what_is_not_compiled_is_refused():
    lowered = weft.jit(lambda x: x + 1).lower(1.0)
    for text in (lowered.as_text(), "", "HloModule m\n"):
        with pytest.raises(WeftValueError, match="the text of a compiled program"):
            schedule(text)
