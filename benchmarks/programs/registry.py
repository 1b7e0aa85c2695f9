"""The table of programs: each is a function of the library and of a size.

It returns a step, which is jitted as a whole, and the step's arguments: NumPy arrays, so that both
libraries and PyTorch are given the same numbers. `size(full, tiny)` is one of its operands; tests
run the tiny programs.
"""

import dataclasses
import importlib
from collections.abc import Callable

FILES = ("simulations", "fields", "networks", "sequences", "probability", "inference", "numerics",
         "solvers", "data", "alignment", "sharded")  # fmt: skip

# Those that torch_programs.py has too.
TORCH = ("n_body", "heat_by_fori_loop", "fft_poisson", "kalman_filter", "lstm_training",
         "transformer_forward", "transformer_training", "resnet_block_gradient", "k_means",
         "gaussian_process_training", "optimal_transport")  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Program:
    """One program: what it is in a line, and how to make its step and arguments."""

    name: str
    description: str
    make: Callable
    devices: int
    tolerance: float


PROGRAMS: dict[str, Program] = {}


# Sums of float32 in another order differ by the root of their length times 6e-8, and that grows
# through an iteration; a wrong program differs by as much as its values. Both libraries draw the
# same numbers.
TOLERANCE = 2e-3


def program(devices=1, tolerance=TOLERANCE):
    """Registers a function under its name; its docstring describes the program.

    tolerance: how much results may differ between libraries, beside the size of an array.
    """

    def register(make):
        name, description = make.__name__, make.__doc__.strip()
        PROGRAMS[name] = Program(name, description, make, devices, tolerance)
        return make

    return register


def full(full, tiny):
    """The size that is measured."""
    return full


def tiny(full, tiny):
    """The size that tests run."""
    return tiny


def load():
    """All programs by name."""
    for name in FILES:
        importlib.import_module(f"programs.{name}")
    return PROGRAMS


def library(name):
    """The root package with the modules that programs use loaded."""
    for module in (
        "numpy", "lax", "nn", "random", "image", "ops", "scipy.special", "scipy.stats",
        "scipy.linalg", "scipy.signal", "scipy.ndimage", "scipy.optimize", "scipy.sparse.linalg",
        "experimental.sparse", "experimental.ode",
    ):  # fmt: skip
        importlib.import_module(f"{name}.{module}")
    return importlib.import_module(name)


def build(lib, name, size=full):
    """(step, arguments) of a program, the arguments as arrays of the library."""
    step, arguments = load()[name].make(lib, size)

    def put(leaf):
        return lib.numpy.asarray(leaf) if type(leaf).__module__ == "numpy" else leaf

    return step, lib.tree_util.tree_map(put, arguments)
