"""Why a name of NumPy or JAX is missing in weft: what docs/parity.md and errors say of it.

By module, groups of names with one reason each. A name that ends in `*`, or begins with it, stands
for all that go on, or end, like this.
"""

from __future__ import annotations

import fnmatch

__all__ = ["REASONS", "RENAMED", "missing", "reason"]

IN_PLACE = "it writes into an array, and arrays do not change; `x.at[i].set(v)` gives a new one"
NO_SUCH_DTYPE = "arrays have no such dtype"
OTHER_NAME = (
    "a second name of a dtype, by the C type of the machine; use `int32`, `float64` and so on"
)
MATRICES = "the class `matrix`, which NumPy itself advises against; use arrays of two dimensions"
DATES = "arrays hold numbers, booleans and random keys; there are no dates"
TEXT_FILES = "text is read and written on the host; use NumPy's, and `asarray` of what it reads"
ONE_CLASS = "arrays have one class and no memory order to ask for; use `asarray`"
MEMORY = "memory is the runtime's; no two arrays can be seen to share it"
ERROR_STATE = "compiled programs raise no floating-point errors; `weft.debug_nans` finds them"
ITERATORS = (
    "loops over elements in Python belong to NumPy; use `vmap`, `scan`, or `numpy.asarray(x)`"
)
NUMPY_BUILD = "it is about NumPy's own installation"
RECORDS = "there are no structured dtypes; use a dictionary or a dataclass of arrays"
REPRESENTATION = "it formats a number of Python's or NumPy's; use NumPy's"
REFERENCES = (
    "there are no mutable array references; values are carried through `scan` and `while_loop`"
)
SETTING = "there is no such setting"
SYMBOLIC = "shapes are numbers; there are no symbolic dimensions"
LATER_PROCESSES = "not yet: programs run in one process so far"
NOT_YET = "not yet"
PRIMITIVE = "`weft.extend.core.primitives` has weft's own, by the names that programs show"
INTERNAL = "internals of JAX"

NUMPY = (
    ("copyto putmask", IN_PLACE),
    ("broadcast", "an iterator; use `broadcast_arrays` or `broadcast_shapes`"),
    ("bytes_ str_ void", NO_SUCH_DTYPE),
    (
        "clongdouble longdouble float128 complex256",
        "XLA has no numbers of more than 64 bits a part",
    ),
    ("byte ubyte short ushort intc uintc intp uintp long ulong longlong ulonglong", OTHER_NAME),
    ("asmatrix bmat matrix", MATRICES),
    ("busday* datetime* is_busday isnat timedelta64", DATES),
    ("record recarray", RECORDS),
    ("fromregex genfromtxt loadtxt savetxt", TEXT_FILES),
    ("memmap", "arrays lie in memory; `save`, `savez` and `load` are there"),
    ("asanyarray asfortranarray require isfortran", ONE_CLASS),
    ("asarray_chkfinite", "it depends on values; use `isfinite(x).all()`, or `weft.debug_nans`"),
    ("may_share_memory shares_memory", MEMORY),
    ("errstate geterr seterr geterrcall seterrcall", ERROR_STATE),
    ("getbufsize setbufsize", NUMPY_BUILD),
    ("nditer nested_iters flatiter", ITERATORS),
    ("get_include show_config show_runtime test info", NUMPY_BUILD),
    ("base_repr binary_repr format_float_positional format_float_scientific", REPRESENTATION),
    ("mintypecode typename", "NumPy's old rules for types; use `result_type`"),
    ("row_stack", "deprecated by NumPy; use `vstack`"),
    ("poly1d", "NumPy advises against it; the functions `polyval`, `polyfit` and others are there"),
    ("False_ True_ little_endian", "Python's `False`, `True` and `sys.byteorder` are the same"),
    ("ScalarType sctypeDict typecodes", "tables of NumPy's scalar classes; see `weft.dtypes`"),
)

JAX = (
    ("Ref empty_ref free_ref freeze new_ref", REFERENCES),
    ("Shard", "`Array.addressable_shards` has such objects; their class is not public"),
    ("allow_f16_reductions auto_pcast *_guard transfer_guard_*", SETTING),
    ("check_tracer_leaks checking_leaks", "leaked tracers are explained without a setting"),
    ("copy_to_host_async memory", "not yet: arrays lie in one kind of memory"),
    ("default_device", "not yet; `device_put`, or `in_shardings` of `jit`"),
    (
        "default_matmul_precision numpy_dtype_promotion",
        "`weft.config.override(default_matmul_precision=…)`, `…(numpy_dtype_promotion=…)`",
    ),
    ("explain_cache_misses", '`weft.config.update("explain_cache_misses", True)`'),
    (
        "default_prng_impl threefry_partitionable",
        "a key says its generator: `random.key(0, impl=…)`",
    ),
    ("enable_custom_prng legacy_prng_key", "typed keys are always on; `random.PRNGKey` gives bits"),
    ("disable_jit", "not yet; without `jit` a function runs operation by operation"),
    ("ds", "use `lax.dynamic_slice`, or an index `start + arange(size)`"),
    ("enable_checks", '`weft.config.update("check_jaxprs", True)`'),
    ("ensure_compile_time_eval", "compute it before the traced function, or with NumPy in it"),
    ("fwd_and_bwd", "not yet; `vjp` gives both"),
    ("host_count host_id host_ids", "deprecated by JAX; `process_count`, `process_index`"),
    ("make_array_from_process_local_data process_indices", LATER_PROCESSES),
    ("jax2tf_associative_scan_reductions softmax_custom_jvp make_user_context", SETTING),
    ("remove_size_one_mesh_axis_from_type no_execution no_tracing log_compiles", SETTING),
    ("numpy_rank_promotion", "not yet; arrays of different ranks are broadcast as NumPy does"),
    ("live_arrays", "not yet"),
    ("named_call", "`named_scope` is a decorator too"),
    ("print_environment_info", NOT_YET),
    ("reshard", "`device_put` outside of `jit`, `with_sharding_constraint` inside"),
    ("smap", "not yet; `shard_map` with `axis_names` maps over some axes only"),
)

LAX = (
    ("*_p", PRIMITIVE),
    ("AccuracyMode Tolerance", "operations take no accuracy"),
    ("DotAlgorithm DotAlgorithmPreset", "products take a `Precision`"),
    ("RaggedDotDimensionNumbers ragged_dot ragged_dot_general scaled_dot", NOT_YET),
    ("ragged_all_to_all psend precv", "not yet; `all_to_all` and `ppermute` are there"),
    ("RandomAlgorithm rng_bit_generator rng_uniform", "`weft.random`: the same numbers everywhere"),
    ("after_all create_token", "the order of effects is part of a program; there are no tokens"),
    ("broadcast_like", "`numpy.broadcast_to(x, y.shape)`"),
    ("composite", NOT_YET),
    ("conv_general_shape_tuple conv_transpose_shape_tuple reduce_window_shape_tuple",
     "`eval_shape` tells the shape of any result"),
    ("dce_sink optimization_barrier", NOT_YET),
    ("dtype", "`weft.numpy.result_type(x)`, or `x.dtype`"),
    ("mulhi", NOT_YET),
    ("platform_dependent", "not yet; `export` takes several platforms"),
    ("scatter_apply", "`x.at[i].apply(f)`"),
    ("shape_as_value", "`weft.numpy.array(x.shape)`"),
    ("stack unstack", "`weft.numpy.stack`, `weft.numpy.unstack`"),
    ("stage", INTERNAL),
)  # fmt: skip

# Modules whose missing names all have the same reason.
_WHOLE = """
jax.ad_checkpoint
jax.custom_batching
jax.custom_derivatives
jax.distributed
jax.dlpack
jax.dtypes
jax.errors
jax.example_libraries.optimizers
jax.example_libraries.stax
jax.experimental
jax.experimental.buffer_callback
jax.experimental.colocated_python
jax.experimental.compilation_cache.compilation_cache
jax.experimental.compute_on
jax.experimental.custom_partitioning
jax.experimental.mesh_utils
jax.experimental.multihost_utils
jax.experimental.ode
jax.experimental.profiler
jax.experimental.random
jax.experimental.rnn
jax.experimental.scheduling_groups
jax.experimental.serialize_executable
jax.experimental.shard_alike
jax.experimental.sparse
jax.experimental.sparse.linalg
jax.experimental.topologies
jax.experimental.xla_metadata
jax.flatten_util
jax.monitoring
jax.ref
jax.stages
jax.test_util
"""

REASONS: dict[str, tuple[tuple[str, str], ...]] = {
    **dict.fromkeys(_WHOLE.split(), (("*", NOT_YET),)),
    "numpy": NUMPY,
    "numpy.linalg": (
        ("LinAlgError", "what has no result is NaN: a compiled program does not raise"),
    ),
    "jax": JAX,
    "jax.debug": (
        ("DebugEffect OrderedDebugEffect", INTERNAL),
        ("inspect_array_sharding", "not yet; `visualize_array_sharding` outside of `jit`"),
        ("log", "use `debug.callback` with a logger"),
    ),
    "jax.export": (
        ("SymbolicScope is_symbolic_dim symbolic_args_specs symbolic_shape", SYMBOLIC),
        ("default_export_platform", "`weft.default_backend()`"),
        ("*_supported_calling_convention_version", "`weft.export.FORMAT_VERSION`"),
    ),
    "jax.lax": LAX,
    "jax.lax.linalg": (("*_p", PRIMITIVE),),
    "jax.nn": (
        ("get_scaled_dot_general_config scaled_dot_general scaled_matmul",
         "kernels of one maker's accelerators"),
    ),
    "jax.numpy": (
        ("float6_* int1 uint1", "not yet; the types of 2, 4 and 8 bits are there"),
    ),
    "jax.sharding": (
        ("AbstractDevice ManualAxisType", INTERNAL),
        ("auto_axes explicit_axes reshard",
         "not yet: the compiler partitions, or the program does in `shard_map`"),
        ("make_single_device_sharding", "`SingleDeviceSharding(device)`"),
        ("use_abstract_mesh", "`use_mesh` takes abstract meshes too"),
    ),
}  # fmt: skip

# Names of earlier releases of JAX and NumPy, and the expression that stands for each today.
RENAMED = {
    "jax": {
        **{f"tree_{name}": f"weft.tree.{name}" for name in
           ("map", "leaves", "flatten", "unflatten", "structure", "transpose", "reduce", "all")},
        "xla_computation": "weft.jit(f).lower",
    },
    "jax.nn": {"normalize": "weft.nn.standardize"},
    "jax.random": {"shuffle": "weft.random.permutation"},
    "numpy": {
        "alltrue": "weft.numpy.all", "asscalar": "x.item", "cumproduct": "weft.numpy.cumprod",
        "in1d": "weft.numpy.isin", "Inf": "weft.numpy.inf",
        "msort": "weft.numpy.sort", "NaN": "weft.numpy.nan", "product": "weft.numpy.prod",
        "round_": "weft.numpy.round", "sometrue": "weft.numpy.any",
        "trapz": "weft.numpy.trapezoid",
    },
}  # fmt: skip


def reason(module: str, name: str) -> str | None:
    """Why a name of a module of another library is missing; None where nobody has said."""
    for names, text in REASONS.get(module, ()):
        if any(fnmatch.fnmatchcase(name, pattern) for pattern in names.split()):
            return text
    return None


def missing(module: str, name: str) -> AttributeError:
    """The error for a name that a module of weft does not have, which says what to use."""
    why = None
    for other in () if name.startswith("_") else ("jax", "numpy"):
        theirs = module.replace("weft.numpy" if other == "numpy" else "weft", other, 1)
        new = RENAMED.get(theirs, {}).get(name)
        why = why or (f"use `{new}`" if new else reason(theirs, name))
    return AttributeError(
        f"module {module!r} has no attribute {name!r}" + (f": {why}" if why else "")
    )
