"""What weft is to reach, as ratios weft / JAX: now, and in the end.

A goal belongs to every metric that begins with its name; the longest such name counts. For figures
where more is better (GB/s) the ratio is turned round: below 1 is always in weft's favour.
"""

import dataclasses


@dataclasses.dataclass(frozen=True)
class Goal:
    """Bounds from above for a ratio, or for weft's own figure where `absolute`."""

    now: float | None
    later: float
    absolute: bool = False
    summary: str = ""  # how the table at the top calls it; empty: only in the table of its case


GOALS = {
    "import_time.wall": Goal(0.5, 0.3, summary="importing, in a fresh interpreter"),
    "import_time.peak_rss": Goal(0.7, 0.7, summary="peak memory after importing"),
    "first_result.wall_whole_process": Goal(0.7, 0.5, summary="start to first jitted result"),
    "first_script.wall_whole_process": Goal(0.4, 0.25, summary="a first script, unjitted"),
    "warm_start.wall_whole_process": Goal(
        0.4, 0.4, summary="start to a 100-layer gradient compiled before"
    ),
    "jit_dispatch.scalar_array.1arg.async": Goal(1.6, 1.0, summary="cached jit call, one array"),
    "jit_dispatch.10_arrays": Goal(1.4, 1.0, summary="cached jit call, 10 arrays"),
    "jit_dispatch.pytree_100.": Goal(1.2, 1.0, summary="cached jit call, 100 leaves in and out"),
    "jit_dispatch.python_float": Goal(None, 1.0),
    "jit_dispatch.numpy_8": Goal(None, 1.0),
    "aot_call.": Goal(1.2, 1.0),
    "aot_call.1_array": Goal(1.2, 1.0, summary="call of a compiled program, one array"),
    "eager_ops.x+y": Goal(1.3, 1.0, summary="eager x + y"),
    "eager_ops.jnp.sin": Goal(1.3, 1.0, summary="eager sin"),
    "eager_ops.jnp.sum": Goal(1.3, 1.0, summary="eager sum"),
    "eager_ops.x[2:5]": Goal(0.4, 0.2, summary="eager x[2:5]"),
    "eager_ops.x[traced_i]": Goal(0.4, 0.2, summary="eager x[i]"),
    "eager_ops.x[idx_array]": Goal(0.4, 0.2, summary="eager x[indices]"),
    "eager_ops.x.at[2].set": Goal(0.4, 0.2, summary="eager x.at[2].set"),
    "eager_ops.jnp.zeros": Goal(None, 0.3),
    "eager_ops.jnp.arange": Goal(None, 0.3),
    "eager_ops.jnp.concatenate": Goal(None, 0.3),
    "eager_ops.jnp.einsum": Goal(None, 0.3),
    "eager_ops.jnp.reshape": Goal(None, 0.3),
    "eager_ops.astype": Goal(None, 0.3),
    "eager_ops.random": Goal(None, 0.6),
    "eager_arrays.": Goal(0.5, 0.3),
    "eager_arrays.einsum.bd,de->be": Goal(0.5, 0.3, summary="eager einsum"),
    "eager_arrays.where.arrays": Goal(0.5, 0.3, summary="eager where"),
    "eager_arrays.concatenate.2": Goal(0.5, 0.3, summary="eager concatenate"),
    "eager_arrays.index.rows_and_columns": Goal(0.5, 0.3, summary="eager x[rows, columns]"),
    "eager_arrays.zeros.8": Goal(0.5, 0.3, summary="eager zeros"),
    "eager_arrays.arange.8": Goal(0.5, 0.3, summary="eager arange"),
    "eager_new_shapes.prefix": Goal(None, 0.1, summary="eager x[:i] of every new length"),
    "eager_transforms.grad.": Goal(None, 0.25),
    "eager_transforms.jvp": Goal(None, 0.25),
    "eager_transforms.vmap": Goal(None, 0.25),
    "eager_transforms.eager_cond": Goal(None, 0.1),
    "eager_transforms.eager_fori": Goal(None, 0.1),
    "trace.a_chain5000.warm": Goal(0.35, 0.2, summary="tracing 5,000 operations through lax"),
    "trace.a2_chain5000": Goal(0.35, 0.2, summary="tracing 5,000 operations through numpy"),
    "trace.a3_chain5000_grad.warm": Goal(0.25, 0.1, summary="tracing the gradient of 5,000"),
    "trace.b_gpt_fwd.warm": Goal(0.35, 0.2, summary="tracing a 12-layer GPT-like loss"),
    "trace.c_gpt_grad.warm": Goal(0.25, 0.15, summary="tracing its gradient"),
    "trace.c2_gpt_adam_step.warm": Goal(None, 0.15),
    "trace.d_vmap_grad_mlp6.warm": Goal(None, 0.15),
    "trace.f_grad_scan_rnn.warm": Goal(0.35, 0.15, summary="tracing the gradient of a scan"),
    "lower.a_chain5000.lower_warm": Goal(0.8, 0.6, summary="lowering 5,000 operations"),
    "lower.c_gpt_grad.lower_warm": Goal(0.8, 0.6, summary="lowering a GPT-like gradient"),
    "compile.": Goal(None, 1.0),
    "scale_chain.make_jaxpr.growth": Goal(1.1, 1.1, True, "growth exponent of tracing, 1k to 32k"),
    "scale_chain.grad_make_jaxpr.growth": Goal(1.1, 1.1, True, "… of tracing a gradient"),
    "scale_chain.lower.growth": Goal(1.1, 1.1, True, "… of lowering"),
    "scale_pytree.jit_call_in.leaves": Goal(None, 1.0),
    "scale_pytree.trace_grad_all_leaves.leaves": Goal(None, 0.1),
    "steady.mlp_sgd": Goal(1.02, 1.02, summary="a step of a jitted MLP"),
    "steady.": Goal(None, 1.02),
    "shard_speed.tiny_8dev": Goal(1.3, 1.0),
    "shard_speed.tiny_8dev.add.async": Goal(1.3, 1.0, summary="cached call on eight devices"),
    "shard_speed.tiny_8dev.10arg": Goal(1.3, 1.0, summary="… with ten arrays"),
    "shard_speed.": Goal(1.02, 1.02),
    "shard_speed.dp_mlp_grad": Goal(1.02, 1.02, summary="gradient over eight devices, jitted"),
    "shard_eager.": Goal(None, 0.02),
    "shard_trace.matmul_basic_512.trace_and_lower_warm": Goal(0.4, 0.3),
    "shard_trace.matmul_reduce_scatter_512.trace_and_lower_warm": Goal(0.4, 0.3),
    "shard_trace.dp_mlp_loss.trace_and_lower_warm": Goal(0.4, 0.3),
    "shard_trace.dp_mlp_grad.trace_and_lower_warm": Goal(
        0.4, 0.3, summary="tracing and lowering that gradient"
    ),
    "shard_eager_bodies.chain20.": Goal(0.033, 0.02),
    "shard_eager_bodies.chain20.call": Goal(
        1 / 30, 0.02, summary="eager shard_map of 20 operations"
    ),
    "shard_eager_bodies.chain20.first": Goal(None, 0.1),
    "shard_eager_bodies.mlp8_grad.": Goal(0.02, 0.02),
    "shard_eager_bodies.mlp8_grad.call": Goal(
        0.02, 0.02, summary="eager gradient over eight devices"
    ),
    "shard_eager_bodies.mlp8_grad.first": Goal(None, 0.1),
    "transformer_gradient.": Goal(1.0, 1.0),
    "transformer_gradient.scan.temp": Goal(
        1.0, 1.0, summary="gradient of a scan over transformer layers, memory"
    ),
    "transformer_gradient.scan.run": Goal(1.0, 1.0, summary="… a step of it"),
    "reverse_memory.": Goal(None, 1.0),
    "reverse_memory.scan1000_grad.temp": Goal(
        1.0, 1.0, summary="gradient of a 1,000-step scan, temporary memory"
    ),
    "reverse_memory.scan1000_grad.run": Goal(1.0, 1.0, summary="… a step of it"),
    "reverse_memory.mlp24_scan_remat.temp": Goal(
        1.0, 1.0, summary="24 checkpointed layers, temporary memory"
    ),
    "layouts.": Goal(None, 1.02),
    "layouts.columns_one_by_one.auto_over": Goal(
        1 / 1.3, 0.5, True, "inferred layouts beside row-major, columns read one by one"
    ),
    "layouts.columns_gathered.auto_over": Goal(1.05, 1.05, True),
    "layouts.rows_one_by_one.auto_over": Goal(1.05, 1.05, True),
    "layouts.scanned.auto_over": Goal(1.05, 1.05, True),
    "layouts.elementwise.auto_over": Goal(1.05, 1.05, True),
    "layouts.sum_over_rows.auto_over": Goal(1.05, 1.05, True),
    "layouts.matmul.auto_over": Goal(1.05, 1.05, True),
    "layouts.matmul_transposed.auto_over": Goal(1.05, 1.05, True),
    "retrace.lambda.traces_of_5": Goal(0.2, 0.2),
    "retrace.partial.traces_of_5": Goal(0.2, 0.2),
    "retrace.method.traces_of_5": Goal(0.2, 0.2),
    "retrace.grad.traces_of_5": Goal(0.2, 0.2),
    "retrace.loop_body.traces_of_5": Goal(0.2, 0.2),
    "retrace.": Goal(0.05, 0.02),
    "retrace.lambda.rebuilt_call": Goal(0.05, 0.02, summary="jit of a lambda made anew"),
    "closure_100mb.closure.over_argument": Goal(
        1.2, 1.1, True, "compiling over a closed-over 100 MiB, beside passing it"
    ),
    "closure_100mb.": Goal(None, 1.0),
    "transfer.1KB.device_put": Goal(None, 0.4),
    "transfer.1KB.device_put_tree_100": Goal(None, 0.2),
    "transfer.1KB.np.asarray_of_fresh_result": Goal(None, 0.6),
    "transfer.256MB.device_put_unaligned": Goal(None, 3.0, True),
    "transfer_sharded.1KB.np.asarray_of_fresh_result": Goal(None, 0.3),
}

# Figures that describe the program or the machine, not how well the library does.
DESCRIPTIVE = (
    "bare_interpreter",
    "share_of",
    "numpy_copy_reference",
    "eqns",
    "stablehlo_",
    "hlo_chars",
)


def goal_of(metric: str) -> Goal | None:
    """The goal of a metric `case.part.figure`."""
    if any(word in metric for word in DESCRIPTIVE):
        return None
    names = [name for name in GOALS if metric.startswith(name)]
    return GOALS[max(names, key=len)] if names else None
