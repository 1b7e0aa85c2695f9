"""Why a name of NumPy, JAX or PyTorch is missing in weft: what errors and docs/parity.md say.

By module, groups of names with one reason each. A name that ends in `*`, or begins with it, stands
for all that go on, or end, like this.
"""

from __future__ import annotations

import fnmatch

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
REPRESENTATION = "it formats a Python or NumPy number; use NumPy's function"
INTERNAL = "a part of JAX's implementation"

NUMPY = (
    ("copyto putmask", IN_PLACE),
    ("broadcast", "an iterator; use `broadcast_arrays` or `broadcast_shapes`"),
    ("bytes_ str_ void", NO_SUCH_DTYPE),
    (
        "clongdouble longdouble float128 complex256",
        "XLA has no numbers with parts of more than 64 bits",
    ),
    ("byte ubyte short ushort intc uintc intp uintp long ulong longlong ulonglong", OTHER_NAME),
    ("asmatrix bmat matrix", MATRICES),
    ("busday* datetime* is_busday isnat timedelta64", DATES),
    ("record recarray", RECORDS),
    ("fromregex genfromtxt loadtxt savetxt", TEXT_FILES),
    ("memmap", "arrays are in memory; use `save`, `savez` and `load`"),
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
    ("poly1d", "NumPy advises against it; use `polyval`, `polyfit` and the other functions"),
    ("False_ True_ little_endian", "Python's `False`, `True` and `sys.byteorder` are the same"),
    ("ScalarType sctypeDict typecodes", "tables of NumPy's scalar classes; see `weft.dtypes`"),
)

LAX = (
    ("psend precv", "XLA's runtimes for CPUs and NVIDIA GPUs have none; use `ppermute`"),
    ("ragged_all_to_all", "XLA has it only for GPUs and TPUs; use `all_to_all` of padded blocks"),
    ("after_all create_token", "the order of effects is part of a program; there are no tokens"),
)

# Modules whose missing names are parts of what JAX's functions there are made of.
_PARTS = """
jax.custom_derivatives
jax.example_libraries.optimizers
jax.experimental
jax.experimental.custom_partitioning
jax.experimental.jet
jax.experimental.multihost_utils
jax.experimental.ode
jax.experimental.rnn
jax.experimental.scheduling_groups
jax.sharding
"""
# Modules whose functions are written in operations of dense arrays.
_WITHOUT_PRIMITIVES = "jax.experimental.sparse jax.experimental.sparse.linalg"

REASONS: dict[str, tuple[tuple[str, str], ...]] = {
    **dict.fromkeys(_PARTS.split(), (("*", INTERNAL),)),
    **dict.fromkeys(
        _WITHOUT_PRIMITIVES.split(),
        (("*_p", "sparse arrays are made of dense ones, and have no primitives of their own"),),
    ),
    "numpy": NUMPY,
    "numpy.linalg": (
        ("LinAlgError", "a missing result is NaN; compiled programs do not raise errors"),
    ),
    "jax.experimental.buffer_callback": (
        ("*", "an argument of a `buffer_callback`, which XLA's runtime here does not have"),
    ),
    "jax.experimental.hijax": (("TransformedRef", "references are indexed, `x[i]`, when used"),),
    "jax.lax": LAX,
    "jax.nn": (
        ("get_scaled_dot_general_config scaled_dot_general",
         "kernels for the accelerators of one manufacturer"),
    ),
    "jax.numpy": (
        ("int1 uint1", "XLA's numbers of one bit are booleans; use a type of 2, 4 or 8 bits"),
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

# Names of PyTorch, by the module of weft where they are looked for, and what stands for each here.
OF_PYTORCH = {
    "weft": {
        "autograd": "weft.grad", "compile": "weft.jit", "from_numpy": "weft.numpy.asarray",
        "manual_seed": "weft.random.key", "no_grad": "weft.lax.stop_gradient",
        "tensor": "weft.numpy.array", "Tensor": "weft.Array",
    },
    "weft.nn": {
        "conv2d": "weft.lax.conv", "interpolate": "weft.image.resize",
        "scaled_dot_product_attention": "weft.nn.dot_product_attention",
    },
    "weft.numpy": {
        "bmm": "weft.numpy.matmul", "cat": "weft.numpy.concatenate", "clamp": "weft.numpy.clip",
        "from_numpy": "weft.numpy.asarray", "gather": "weft.numpy.take_along_axis",
        "masked_fill": "weft.numpy.where", "mm": "weft.numpy.matmul",
        "permute": "weft.numpy.permute_dims", "rand": "weft.random.uniform",
        "randn": "weft.random.normal", "randperm": "weft.random.permutation",
        "tensor": "weft.numpy.array", "topk": "weft.lax.top_k",
        "unsqueeze": "weft.numpy.expand_dims",
    },
    "weft.random": {
        "manual_seed": "weft.random.key", "rand": "weft.random.uniform",
        "randn": "weft.random.normal", "randperm": "weft.random.permutation",
    },
}  # fmt: skip


def reason(module: str, name: str) -> str | None:
    """Why a name of a module of another library is missing; None if it is not stated."""
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
    new = OF_PYTORCH.get(module, {}).get(name)
    if why is None and new:
        why = f"it is a name of PyTorch; use `{new}`"
    return AttributeError(
        f"module {module!r} has no attribute {name!r}" + (f": {why}" if why else "")
    )
