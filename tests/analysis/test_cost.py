"""`weft.cost` beside closed forms, XLA's own count, and loops written out."""

import math

import numpy as np
import pytest

import weft
import weft.numpy as jnp
from weft import lax
from weft.analysis.cost import cost
from weft.analysis.hardware import ACCELERATORS, Hardware, communication_time
from weft.extend import core
from weft.extend.interpreters import partial_eval


def shape(*lengths, dtype="float32"):
    return weft.ShapeDtypeStruct(lengths, dtype)


def near(found, wanted, within=0.01):
    assert abs(found - wanted) <= within * wanted, f"{found:.6g}, closed form {wanted:.6g}"


def xla_flops(function, *args):
    found = weft.jit(function).lower(*args).compile().cost_analysis()
    return (found[0] if isinstance(found, list) else found)["flops"]


# ---- closed forms ------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16", "complex64"])
def test_a_product_of_matrices(dtype):
    m, k, n = 48, 100, 64
    x, y = shape(m, k, dtype=dtype), shape(k, n, dtype=dtype)
    each = 8 if dtype == "complex64" else 2
    report = cost(jnp.matmul, x, y)
    assert report.flops == each * m * k * n
    size = np.dtype(x.dtype).itemsize
    assert report.bytes_read == size * (m * k + k * n) and report.bytes_written == size * m * n
    if dtype != "complex64":
        gradient = weft.grad(lambda x, y: jnp.sum(jnp.matmul(x, y)), argnums=(0, 1))
        near(cost(gradient, x, y).flops, 2 * each * m * k * n)


def test_products_of_narrow_floating_numbers_are_flops_and_those_of_integers_are_not():
    chip = ACCELERATORS["H100"]
    for dtype, flops in {"float8_e4m3fn": 2 * 64**3, "int8": 0, "int4": 0}.items():
        report = cost(jnp.matmul, shape(64, 64, dtype=dtype), shape(64, 64, dtype=dtype))
        assert report.flops == flops
    assert chip.flops_of("float8_e4m3fn") > 1.9 * chip.flops_of("bfloat16")


def attention(q, k, v):
    scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) / math.sqrt(q.shape[-1])
    return jnp.einsum("bhqk,bkhd->bqhd", weft.nn.softmax(scores), v)


# Flops of elementwise parts, for each element (additions, products, quotients and extrema), by the
# formulas of the textbooks: of the value, and of the gradient given the cotangent and the value.
# softmax: maximum, difference, sum, quotient; p * (c - sum(p * c)).
SOFTMAX, SOFTMAX_BACK = 4, 4
# standardize: mean, difference, square and its sum, product with 1 / deviation;
# (c - mean(c) - y * mean(y * c)) / deviation.
STANDARDIZE, STANDARDIZE_BACK = 5, 7
# gelu, x / 2 * (1 + tanh(a * (x + b * x**3))), and its derivative: 1 + t of the value, then
# c * ((1 + t) / 2 + x / 2 * (1 - t * t) * a * (1 + 3 * b * x * x)).
GELU, GELU_BACK = 8, 12


def test_elementwise_parts():
    rows, length = 64, 256
    n, x = rows * length, shape(rows, length)
    # The first of a row's numbers is neither compared nor added.
    assert SOFTMAX * n - 2 * rows <= cost(weft.nn.softmax, x).flops <= SOFTMAX * n
    assert cost(weft.nn.softmax, x).functions == n
    near(cost(weft.nn.standardize, x).flops, STANDARDIZE * n)
    # A power of three is two products, and the factor of tanh stands for one more.
    assert GELU * n <= cost(weft.nn.gelu, x).flops <= (GELU + 1) * n


def test_attention_and_its_gradient():
    b, s, h, d = 4, 256, 8, 64
    q = shape(b, s, h, d)
    scores = b * h * s * s
    products = 2 * 2 * scores * d
    # The scores are also scaled, and so is their cotangent.
    forward = products + (SOFTMAX + 1) * scores
    report = cost(attention, q, q, q)
    near(report.flops, forward, within=0.001)
    assert report.functions == scores
    gradient = weft.grad(lambda *args: jnp.sum(jnp.square(attention(*args))), argnums=(0, 1, 2))
    # The derivative of a square: two products. The sum itself is not used.
    loss = 2 * b * s * h * d
    backward = 2 * products + (SOFTMAX_BACK + 1) * scores + loss
    near(cost(gradient, q, q, q).flops, forward + backward, within=0.002)


@pytest.mark.parametrize("stride", [1, 2, 3])
@pytest.mark.parametrize("padding", ["VALID", "SAME"])
def test_convolutions_count_the_pairs_that_meet(stride, padding):
    """The gradients of a convolution multiply the same pairs, and XLA counts them alike."""
    n, height, width, channels, features, kernel = 2, 17, 12, 8, 16, 3

    def convolve(x, k):
        numbers = ("NHWC", "HWIO", "NHWC")
        return lax.conv_general_dilated(x, k, (stride,) * 2, padding, dimension_numbers=numbers)

    x, k = shape(n, height, width, channels), shape(kernel, kernel, channels, features)
    pairs = 1
    for length in (height, width):
        out = -(-length // stride) if padding == "SAME" else (length - kernel) // stride + 1
        low = max(0, (out - 1) * stride + kernel - length) // 2 if padding == "SAME" else 0
        pairs *= sum(0 <= i * stride + j - low < length for i in range(out) for j in range(kernel))
    wanted = 2 * n * channels * features * pairs
    assert cost(convolve, x, k).flops == wanted
    for argnum in (0, 1):
        gradient = weft.grad(lambda *args: jnp.sum(convolve(*args)), argnums=argnum)
        assert cost(gradient, x, k).flops == wanted == xla_flops(gradient, x, k)


def test_grouped_and_dilated_convolutions_count_as_in_xla():
    x, k = shape(2, 16, 20), shape(12, 4, 5)
    for options in (
        {"feature_group_count": 4},
        {"feature_group_count": 4, "lhs_dilation": (3,), "window_strides": (2,)},
        {"feature_group_count": 4, "rhs_dilation": (2,), "padding": ((3, 1),)},
    ):

        def convolve(x, k, options=options):
            given = {"window_strides": (1,), "padding": "VALID"} | options
            return lax.conv_general_dilated(x, k, **given)

        assert cost(convolve, x, k).flops == xla_flops(convolve, x, k)


def block(p, x):
    """A block of a transformer: attention and an MLP, with normalization before each."""
    b, s, d = x.shape
    y = weft.nn.standardize(x)
    heads = [(y @ p[name]).reshape(b, s, 8, d // 8) for name in ("q", "k", "v")]
    x = x + attention(*heads).reshape(b, s, d) @ p["o"]
    return x + weft.nn.gelu(weft.nn.standardize(x) @ p["up"]) @ p["down"]


BLOCK = {name: shape(512, 512) for name in "qkvo"} | {
    "up": shape(512, 2048),
    "down": shape(2048, 512),
}


def test_a_block_of_a_transformer_and_its_gradient():
    b, s, d, heads = 4, 128, 512, 8
    x = shape(b, s, d)
    tokens = b * s
    # Kaplan et al., Scaling laws for neural language models, 2020: 2 per weight and token, and the
    # products of attention.
    products = 2 * tokens * 12 * d * d + 4 * tokens * s * d
    # Beside them: two normalizations, scores, the MLP's hidden layer and two residuals.
    hidden, scores = 4 * d * tokens, heads * s * tokens
    wide = d * tokens
    forward = 2 * STANDARDIZE * wide + (SOFTMAX + 1) * scores + GELU * hidden + 2 * wide
    near(cost(block, BLOCK, x).flops, products + forward, within=0.001)
    gradient = weft.grad(lambda *args: jnp.sum(jnp.square(block(*args))), argnums=(0, 1))
    # Cotangents of what is used twice are added: of both residuals, and of q, k and v.
    backward = 2 * STANDARDIZE_BACK * wide + (SOFTMAX_BACK + 1) * scores + GELU_BACK * hidden
    backward += 4 * wide + 2 * wide  # the second for the loss
    near(cost(gradient, BLOCK, x).flops, 3 * products + forward + backward, within=0.002)
    # The elementwise part is no rounding of the whole: it is held to it, to a tenth.
    near(cost(block, BLOCK, x).flops - products, forward, within=0.1)


def products_alone(report):
    return report.flops_by_dtype.get("bfloat16", 0)


def test_products_of_a_block_are_exact():
    """In bfloat16 with all else in float32, what is counted in bfloat16 is the products."""
    b, s, d = 2, 64, 512
    p = {name: shape(*of.shape, dtype="bfloat16") for name, of in BLOCK.items()}

    def products(p, x):
        x = x.astype("bfloat16")
        return [x @ p[name] for name in "qkvo"] + [x @ p["up"] @ p["down"]]

    assert products_alone(cost(products, p, shape(b, s, d))) == 2 * b * s * 12 * d * d


@pytest.mark.parametrize("n", [8, 33])
def test_leading_terms_of_factorizations(n):
    a, b = shape(5, n, n), shape(5, n, 3)
    cases = {
        lambda a: lax.linalg.cholesky(a, symmetrize_input=False): n**3 / 3,
        lax.linalg.lu: 2 * n**3 / 3,
        jnp.linalg.qr: 4 * n**3 - 4 * n**3 / 3,
        lambda a: lax.linalg.triangular_solve(a, jnp.zeros(b.shape), left_side=True): 3 * n**2,
    }
    for function, wanted in cases.items():
        near(cost(function, a).flops, 5 * wanted, within=1e-9)


# ---- loops, branches, calls --------------------------------------------------------------------


def step(x):
    return jnp.tanh(x @ x) + 1.0


@pytest.mark.parametrize("length", [1, 10, 100])
def test_a_loop_scales_exactly_and_equals_the_loop_written_out(length):
    x = shape(16, 16)

    def looped(x):
        return lax.scan(lambda c, _: (step(c), None), x, None, length=length)[0]

    def written_out(x):
        for _ in range(length):
            x = step(x)
        return x

    for function in (looped, written_out):
        assert cost(function, x).flops == length * cost(step, x).flops
        assert cost(function, x).functions == length * cost(step, x).functions
    gradients = [weft.grad(lambda x, f=f: jnp.sum(f(x))) for f in (looped, written_out)]
    loop, steps = (cost(gradient, x) for gradient in gradients)
    # The cotangent of what the last step returns is added to zeros: once, whatever the length.
    assert loop.flops == steps.flops + 16 * 16
    # Written out, the value of the last step is not computed: nothing reads it.
    assert loop.functions == steps.functions + 16 * 16


def test_the_dearest_branch_counts():
    x = shape(32, 32)

    def branches(i, x):
        return lax.switch(i, [lambda x: x, lambda x: x @ x @ x, lambda x: x @ x], x)

    report = cost(branches, shape(dtype="int32"), x)
    assert report.flops == 2 * 2 * 32**3
    assert any("branches" in note for note in report.notes)


def test_a_while_loop_counts_once_and_says_so():
    report = cost(lambda x: lax.while_loop(lambda x: x[0, 0] < 9, step, x), shape(8, 8))
    assert report.flops >= cost(step, shape(8, 8)).flops
    assert any("while" in note for note in report.notes)


@pytest.mark.parametrize(
    "wrap", [weft.jit, weft.checkpoint, lambda f: weft.jit(weft.jit(f)), weft.vmap]
)
def test_calls_add_nothing(wrap):
    x = shape(3, 8, 8) if wrap is weft.vmap else shape(8, 8)
    times = 3 if wrap is weft.vmap else 1
    assert cost(wrap(step), x).flops == times * cost(step, shape(8, 8)).flops


def test_rematerialization_costs_the_forward_pass_again():
    x = shape(64, 64)

    def chain(x):
        return step(step(step(x)))

    plain = cost(weft.value_and_grad(lambda x: jnp.sum(chain(x))), x).flops
    again = cost(weft.value_and_grad(lambda x: jnp.sum(weft.checkpoint(chain)(x))), x).flops
    # Three products and two sums: the last sum is no operand of the backward pass.
    assert again - plain == 3 * 2 * 64**3 + 2 * 64**2


def test_inside_shard_map_costs_are_of_a_device():
    mesh = weft.sharding.AbstractMesh((4, 1024), ("a", "b"))
    product = weft.shard_map(
        lambda x, y: x @ y, mesh=mesh, in_specs=(weft.P("a"), weft.P(None, "b")),
        out_specs=weft.P("a", "b"),
    )  # fmt: skip
    report = cost(product, shape(64, 32), shape(32, 4096))
    assert report.flops == 2 * 16 * 32 * 4


# ---- bytes and memory --------------------------------------------------------------------------


def test_elementwise_chains_are_stored_once():
    n = 1 << 20
    report = cost(lambda x: jnp.sum(jnp.exp(x) * 2.0 + jnp.sin(x)), shape(n))
    assert report.fused_bytes == 4 * n + 4 and report.functions == 2 * n
    assert report.flops == 3 * n - 1


def test_peak_memory_is_near_what_xla_needs():
    x = shape(256, 256)

    def chain(x):
        for _ in range(6):
            x = jnp.tanh(x @ x)
        return x

    for function in (chain, weft.grad(lambda x: jnp.sum(chain(x)))):
        memory = weft.jit(function).lower(x).compile().memory_analysis()
        needed = (
            memory.temp_size_in_bytes + memory.argument_size_in_bytes + memory.output_size_in_bytes
        )
        assert 0.7 * needed <= cost(function, x).peak_memory <= 1.7 * needed


def test_an_update_in_place_moves_its_update_alone():
    x, update = shape(1000, 1000), shape(1, 1000)
    report = cost(lambda x, u: lax.dynamic_update_slice(x, u, (3, 0)), x, update)
    assert report.bytes_written == 4 * 1000


# ---- lines, rooflines, errors ------------------------------------------------------------------


def test_costs_stand_at_their_lines():
    def two_lines(x):
        y = x @ x
        return y @ y @ y

    report = cost(two_lines, shape(16, 16))
    first, second = (two_lines.__code__.co_firstlineno + k for k in (1, 2))
    by_line = {int(line.line.split(":")[1].split()[0]): line.flops for line in report.lines}
    assert by_line == {first: 2 * 16**3, second: 2 * 2 * 16**3}
    assert "two_lines costs" in repr(report)


def test_a_primitive_of_the_users_is_named():
    def opaque(x):
        return weft.pure_callback(np.sin, x, x)

    report = cost(opaque, jnp.ones(3))
    assert report.unknown == {"pure_callback": 1} and "pure_callback" in repr(report)


def test_what_a_primitive_of_the_users_runs():
    """By default the first jaxpr once; by its rule as often as that says."""
    body = weft.make_jaxpr(step)(jnp.ones((8, 8))).jaxpr

    def applied(name, *rule):
        repeated = core.Primitive(name, multiple_results=True, memoise=False)
        repeated.def_abstract_eval(lambda *types, **params: list(types))
        for runs in rule:
            partial_eval.register_runs(repeated, runs)
        return cost(lambda x: repeated.bind(x, jaxpr=body, times=7)[0], shape(8, 8))

    one = cost(step, shape(8, 8)).flops
    assert applied("called").flops == one

    def seven_times(eqn):
        return core.InnerPrograms((core.InnerProgram(eqn.params["jaxpr"], eqn.params["times"]),))

    assert applied("repeated", seven_times).flops == 7 * one
    assert applied("described", lambda eqn: core.no_programs).flops == 0


def test_a_roofline_says_what_binds():
    chip = Hardware(flops={"bfloat16": 1e12, "float32": 1e11}, memory_bandwidth=1e10)
    large = cost(jnp.matmul, shape(1024, 1024), shape(1024, 1024))
    (row,) = large.roofline(chip)
    assert row.bound == "compute" and row.seconds == pytest.approx(2 * 1024**3 / 1e11)
    small = cost(lambda x: x + 1.0, shape(1 << 20))
    (row,) = small.roofline(chip)
    assert row.bound == "memory"
    assert row.seconds == small.seconds(chip) == pytest.approx(8 * (1 << 20) / 1e10)
    half = cost(jnp.matmul, *[shape(1024, 1024, dtype="bfloat16")] * 2)
    assert half.seconds(chip) == pytest.approx(2 * 1024**3 / 1e12)


def test_rings_take_the_time_of_the_textbook():
    chip = Hardware(1e12, 1e12, {"i": 1e9, "j": 2e9}, latency=1e-6)
    size = 8e6
    assert communication_time(chip, "all_gather", size, 4, ("i",)) == pytest.approx(
        0.75 * size / 1e9 + 3e-6
    )
    assert communication_time(chip, "all_reduce", size, 4, ("j",)) == pytest.approx(
        2 * (0.75 * size / 2e9 + 3e-6)
    )
    assert communication_time(chip, "collective_permute", size, 4, ("i",)) == pytest.approx(
        size / 1e9 + 1e-6
    )
    assert communication_time(chip, "all_reduce", size, 1, ("i",)) == 0


def test_accelerators_have_sources():
    for chip in ACCELERATORS.values():
        assert chip.source and chip.flops_of("bfloat16") > chip.flops_of("float32")


@pytest.mark.parametrize(
    "field, number", [("flops", 0), ("memory_bandwidth", -1.0), ("latency", -1), ("memory", "x")]
)
def test_hardware_takes_positive_numbers(field, number):
    given = {"flops": 1e12, "memory_bandwidth": 1e12} | {field: number}
    with pytest.raises(weft.errors.WeftValueError, match=field):
        Hardware(**given)


def test_an_axis_without_a_bandwidth_is_named():
    chip = Hardware(1e12, 1e12, {"data": 1e9})
    with pytest.raises(weft.errors.WeftValueError, match="model"):
        chip.bandwidth_along("model")


@pytest.mark.parametrize("look", [weft.cost, weft.comms, weft.assert_comms])
def test_what_is_no_function_is_refused_by_name(look):
    with pytest.raises(weft.errors.WeftTypeError, match="function"):
        look(3, jnp.ones(3))
