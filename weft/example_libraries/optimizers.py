"""First-order optimizers as triples of functions, and schedules of their step sizes.

An optimizer is a triple (init_fn, update_fn, params_fn): `init_fn(params)` makes a state,
`update_fn(step, gradients, state)` the next one, and `params_fn(state)` has its parameters. States
are trees, so a loop may carry them. A step size is a number or a schedule: a function of the number
of the step, which may be traced.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Self

import weft.numpy as jnp
from weft import tree
from weft.base.facades import public_names
from weft.core.types import type_of
from weft.errors import TreeError, WeftTypeError, WeftValueError
from weft.errors.argument_errors import not_a_function, refusal

__all__ = [
    "JoinPoint", "Optimizer", "OptimizerState", "Schedule", "adagrad", "adam", "adamax",
    "clip_grads", "constant", "exponential_decay", "inverse_time_decay", "l2_norm",
    "make_schedule", "momentum", "nesterov", "optimizer", "pack_optimizer_state",
    "piecewise_constant", "polynomial_decay", "rmsprop", "rmsprop_momentum", "sgd", "sm3",
    "unpack_optimizer_state",
]  # fmt: skip

__dir__ = public_names(globals())

Schedule = Callable[[Any], Any]
InitFn = Callable[[Any], Any]
UpdateFn = Callable[[Any, Any, Any], Any]
ParamsFn = Callable[[Any], Any]


@tree.register_class
class OptimizerState:
    """The state of an optimizer: for each leaf of the parameters the leaves of its own state.

    `packed_state` is a list of these lists, `tree_def` the structure of the parameters, and
    `subtree_defs` those of the states of the leaves.

    Args:
        packed_state: For each leaf of the parameters the leaves of its state, in lists.
        tree_def: The structure of the parameters.
        subtree_defs: The structure of each leaf's state.
    """

    __slots__ = ("packed_state", "subtree_defs", "tree_def")

    def __init__(self, packed_state: Any, tree_def: Any, subtree_defs: Sequence[Any]) -> None:
        self.packed_state = packed_state
        self.tree_def = tree_def
        self.subtree_defs = subtree_defs

    def tree_flatten(self) -> tuple[tuple[Any, ...], Any]:
        return (self.packed_state,), (self.tree_def, tuple(self.subtree_defs))

    @classmethod
    def tree_unflatten(cls, aux_data: Any, children: Sequence[Any]) -> Self:
        return cls(children[0], *aux_data)

    def __iter__(self) -> Any:
        return iter((self.packed_state, self.tree_def, self.subtree_defs))

    def __repr__(self) -> str:
        return f"OptimizerState({self.packed_state!r}, {self.tree_def!r})"


class Optimizer(NamedTuple):
    """The three functions of an optimizer.

    Args:
        init_fn: `init_fn(params)` returns the first state.
        update_fn: `update_fn(step, gradients, state)` returns the next state.
        params_fn: `params_fn(state)` returns the parameters.
    """

    init_fn: InitFn
    update_fn: UpdateFn
    params_fn: ParamsFn


def optimizer(opt_maker: Callable[..., tuple[InitFn, Any, ParamsFn]]) -> Callable[..., Optimizer]:
    """Makes an optimizer of single arrays one of trees of them. A decorator.

    `opt_maker(*settings)` returns three functions of one array: `init(x)`, `update(step, gradient,
    state)` and `get_params(state)`. The update raises TreeError if gradients have not the
    structure of the parameters.

    Args:
        opt_maker: The function that makes the three functions of one array from the settings.

    >>> from weft.example_libraries import optimizers
    >>> @optimizers.optimizer
    ... def halving(rate):
    ...     return (lambda x: x), (lambda i, g, x: x - rate * g), (lambda x: x)
    >>> init, update, get_params = halving(0.5)
    >>> get_params(update(0, {"w": jnp.ones(2)}, init({"w": jnp.ones(2)})))
    {'w': Array([0.5, 0.5], dtype=float32)}
    """

    @functools.wraps(opt_maker)
    def tree_opt_maker(*args: Any, **kwargs: Any) -> Optimizer:
        init, update, get_params = opt_maker(*args, **kwargs)

        def packed(states: Sequence[Any], structure: Any) -> OptimizerState:
            pairs = [tree.flatten(state) for state in states]
            return OptimizerState([x for x, _ in pairs], structure, [d for _, d in pairs])

        def unpacked(state: OptimizerState) -> list[Any]:
            pairs = zip(state.packed_state, state.subtree_defs, strict=True)
            return [structure.unflatten(leaves) for leaves, structure in pairs]

        def tree_init(params: Any) -> OptimizerState:
            leaves, structure = tree.flatten(params)
            return packed([init(x) for x in leaves], structure)

        def tree_update(i: Any, grad_tree: Any, opt_state: OptimizerState) -> OptimizerState:
            gradients, structure = tree.flatten(grad_tree)
            if structure != opt_state.tree_def:
                message = "the gradients have not the structure of the parameters"
                got, wanted = f"{structure}", f"{opt_state.tree_def}"
                raise refusal(TreeError, message, "optimizer update", got, wanted)
            states = zip(gradients, unpacked(opt_state), strict=True)
            new = packed([update(i, g, state) for g, state in states], structure)
            if list(new.subtree_defs) != list(opt_state.subtree_defs):
                message = "the update of an optimizer changes the structure of its state"
                got, wanted = f"{new.subtree_defs}", f"{opt_state.subtree_defs}"
                raise refusal(TreeError, message, "optimizer update", got, wanted)
            return new

        def tree_get_params(opt_state: OptimizerState) -> Any:
            return opt_state.tree_def.unflatten([get_params(x) for x in unpacked(opt_state)])

        return Optimizer(tree_init, tree_update, tree_get_params)

    return tree_opt_maker


# ---- optimizers ----------------------------------------------------------------------------------


@optimizer
def sgd(step_size: float | Schedule) -> Any:
    """Stochastic gradient descent."""
    rate = make_schedule(step_size)

    def update(i: Any, g: Any, x: Any) -> Any:
        return x - rate(i) * g

    return _same, update, _same


def _same(x: Any) -> Any:
    return x


def _first(state: Any) -> Any:
    return state[0]


def _with_zeros(count: int) -> InitFn:
    """The initial state: the parameter and `count` arrays of zeros like it."""
    return lambda x: (x, *(jnp.zeros_like(x) for _ in range(count)))


@optimizer
def momentum(step_size: float | Schedule, mass: float) -> Any:
    """Gradient descent with momentum: velocities decay by `mass` and gather gradients.

    Args:
        mass: The share of the last velocity that stays in each step.
    """
    rate = make_schedule(step_size)

    def update(i: Any, g: Any, state: Any) -> Any:
        x, velocity = state
        velocity = mass * velocity + g
        return x - rate(i) * velocity, velocity

    return _with_zeros(1), update, _first


@optimizer
def nesterov(step_size: float | Schedule, mass: float) -> Any:
    """Gradient descent with Nesterov's momentum.

    Args:
        mass: The share of the last velocity that stays in each step.
    """
    rate = make_schedule(step_size)

    def update(i: Any, g: Any, state: Any) -> Any:
        x, velocity = state
        velocity = mass * velocity + g
        return x - rate(i) * (mass * velocity + g), velocity

    return _with_zeros(1), update, _first


@optimizer
def adagrad(step_size: float | Schedule, momentum: float = 0.9) -> Any:
    """Adagrad with momentum: J. Duchi, E. Hazan and Y. Singer, "Adaptive Subgradient Methods for
    Online Learning and Stochastic Optimization", JMLR 12 (2011).

    Args:
        momentum: The share of the last velocity that stays in each step.
    """
    rate = make_schedule(step_size)

    def update(i: Any, g: Any, state: Any) -> Any:
        x, squares, velocity = state
        squares = squares + jnp.square(g)
        scale = jnp.where(squares > 0, 1.0 / jnp.sqrt(squares), 0.0)
        velocity = (1.0 - momentum) * (g * scale) + momentum * velocity
        return x - rate(i) * velocity, squares, velocity

    return _with_zeros(2), update, _first


@optimizer
def rmsprop(step_size: float | Schedule, gamma: float = 0.9, eps: float = 1e-8) -> Any:
    """RMSProp: gradients over the root of their mean square, which decays by `gamma`.

    Args:
        eps: A small number that is added to the mean square.
        gamma: The share of the last mean square that stays in each step.
    """
    rate = make_schedule(step_size)

    def update(i: Any, g: Any, state: Any) -> Any:
        x, squares = state
        squares = squares * gamma + jnp.square(g) * (1.0 - gamma)
        return x - rate(i) * g / jnp.sqrt(squares + eps), squares

    return _with_zeros(1), update, _first


@optimizer
def rmsprop_momentum(
    step_size: float | Schedule, gamma: float = 0.9, eps: float = 1e-8, momentum: float = 0.9
) -> Any:
    """RMSProp with momentum on its steps.

    Args:
        gamma: The share of the last mean square that stays in each step.
        eps: A small number that is added to the mean square.
        momentum: The share of the last velocity that stays in each step.
    """
    rate = make_schedule(step_size)

    def update(i: Any, g: Any, state: Any) -> Any:
        x, squares, velocity = state
        squares = squares * gamma + jnp.square(g) * (1.0 - gamma)
        velocity = momentum * velocity + rate(i) * g / jnp.sqrt(squares + eps)
        return x - velocity, squares, velocity

    return _with_zeros(2), update, _first


@optimizer
def adam(step_size: float | Schedule, b1: float = 0.9, b2: float = 0.999, eps: float = 1e-8) -> Any:
    """Adam: D. P. Kingma and J. Ba, "Adam: A Method for Stochastic Optimization", ICLR 2015.

    Args:
        b1: The share of the last mean of gradients that stays in each step.
        b2: The share of the last mean of squared gradients that stays in each step.
        eps: A small number that is added to the divisor.

    >>> from weft.example_libraries import optimizers
    >>> init, update, get_params = optimizers.adam(0.1)
    >>> state = init(jnp.array([1.0, 2.0]))
    >>> np.asarray(get_params(update(0, jnp.array([0.5, -0.5]), state))).round(2)
    array([0.9, 2.1], dtype=float32)
    """
    rate = make_schedule(step_size)

    def update(i: Any, g: Any, state: Any) -> Any:
        x, mean, squares = state
        mean = (1 - b1) * g + b1 * mean
        squares = (1 - b2) * jnp.square(g) + b2 * squares
        unbiased = mean / (1 - jnp.asarray(b1, mean.dtype) ** (i + 1))
        spread = squares / (1 - jnp.asarray(b2, mean.dtype) ** (i + 1))
        return x - rate(i) * unbiased / (jnp.sqrt(spread) + eps), mean, squares

    return _with_zeros(2), update, _first


@optimizer
def adamax(
    step_size: float | Schedule, b1: float = 0.9, b2: float = 0.999, eps: float = 1e-8
) -> Any:
    """AdaMax, the variant of Adam by the largest gradient (same paper).

    Args:
        b1: The share of the last mean of gradients that stays in each step.
        b2: The factor by which the largest gradient so far shrinks in each step.
        eps: A small number that is added to the divisor.
    """
    rate = make_schedule(step_size)

    def update(i: Any, g: Any, state: Any) -> Any:
        x, mean, largest = state
        mean = (1 - b1) * g + b1 * mean
        largest = jnp.maximum(b2 * largest, jnp.abs(g))
        unbiased = rate(i) / (1 - jnp.asarray(b1, mean.dtype) ** (i + 1))
        return x - unbiased * mean / (largest + eps), mean, largest

    return _with_zeros(2), update, _first


@optimizer
def sm3(step_size: float | Schedule, momentum: float = 0.9) -> Any:
    """SM3: R. Anil, V. Gupta, T. Koren and Y. Singer, "Memory-Efficient Adaptive Optimization",
    NeurIPS 2019. The squares of gradients are kept per row of each dimension.

    Args:
        momentum: The share of the last velocity that stays in each step.
    """
    rate = make_schedule(step_size)

    def along(x: Any, axis: int, ndim: int) -> Any:
        return x.reshape(*[1] * axis, -1, *[1] * (ndim - axis - 1))

    def init(x: Any) -> Any:
        kind = type_of(x)
        rows = [jnp.zeros(n, kind.dtype) for n in kind.shape]
        return x, jnp.zeros_like(x), rows if kind.shape else [jnp.zeros((), kind.dtype)]

    def update(i: Any, g: Any, state: Any) -> Any:
        x, velocity, rows = state
        ndim = type_of(x).ndim
        least = [along(row, axis, ndim) for axis, row in enumerate(rows)] if ndim else rows
        squares = functools.reduce(jnp.minimum, least) + jnp.square(g)
        scale = jnp.where(squares > 0, 1.0 / jnp.sqrt(squares), 0.0)
        velocity = (1.0 - momentum) * (g * scale) + momentum * velocity
        rows = [
            squares if not ndim else jnp.max(squares, tuple(d for d in range(ndim) if d != axis))
            for axis in range(max(ndim, 1))
        ]
        return x - rate(i) * velocity, velocity, rows

    return init, update, _first


# ---- schedules -----------------------------------------------------------------------------------


def constant(step_size: Any) -> Schedule:
    """The same step size in every step."""
    return lambda i: step_size


def exponential_decay(step_size: Any, decay_steps: Any, decay_rate: Any) -> Schedule:
    """A step size that is multiplied by `decay_rate` over each `decay_steps` steps.

    Args:
        step_size: The step size in step 0.
        decay_steps: How many steps it takes until the step size has been multiplied once.
        decay_rate: The factor for that many steps.
    """
    return lambda i: step_size * decay_rate ** (i / decay_steps)


def inverse_time_decay(
    step_size: Any, decay_steps: Any, decay_rate: Any, staircase: bool = False
) -> Schedule:
    """A step size over 1 + `decay_rate` times the number of `decay_steps` that have passed;
    `staircase` counts only whole ones.

    Args:
        step_size: The step size in step 0.
        decay_steps: The number of steps that count as one.
        decay_rate: What is added to the divisor for that many steps.
        staircase: Whether the step size falls only after whole `decay_steps`.
    """

    def schedule(i: Any) -> Any:
        passed = jnp.floor(i / decay_steps) if staircase else i / decay_steps
        return step_size / (1 + decay_rate * passed)

    return schedule


def polynomial_decay(
    step_size: Any, decay_steps: Any, final_step_size: Any, power: float = 1.0
) -> Schedule:
    """A step size that falls to `final_step_size` over `decay_steps` steps, as a power.

    Args:
        step_size: The step size in step 0.
        power: The exponent of the part that is left to fall; 1 falls evenly.
        decay_steps: How many steps it falls; it stays as it is behind them.
        final_step_size: The step size behind these steps.
    """

    def schedule(step_num: Any) -> Any:
        left = 1 - jnp.minimum(step_num, decay_steps) / decay_steps
        return left**power * (step_size - final_step_size) + final_step_size

    return schedule


def piecewise_constant(boundaries: Any, values: Any) -> Schedule:
    """The i-th value up to the i-th boundary, the last one behind all.

    Raises WeftValueError unless there is one value more than boundaries.

    Args:
        boundaries: The last step of each value but the last, in rising order; an array of shape
            (n,).
        values: The step sizes; an array of shape (n + 1,).
    """
    boundaries, values = jnp.asarray(boundaries), jnp.asarray(values)
    shapes = type_of(boundaries).shape, type_of(values).shape
    if len(shapes[0]) != 1 or len(shapes[1]) != 1 or shapes[1][0] != shapes[0][0] + 1:
        message = "piecewise_constant: there is one value more than boundaries"
        got, wanted = f"shapes {shapes[0]} and {shapes[1]}", "(n,) boundaries and (n + 1,) values"
        raise refusal(WeftValueError, message, "piecewise_constant", got, wanted)
    return lambda i: values[jnp.sum(i > boundaries)]


def make_schedule(scalar_or_schedule: Any) -> Schedule:
    """The schedule of a number, or the schedule itself. Raises WeftTypeError for anything else.

    Args:
        scalar_or_schedule: A number, or a function from the number of the step to the step size.
    """
    if callable(scalar_or_schedule):
        schedule: Schedule = scalar_or_schedule
        return schedule
    try:
        single = type_of(scalar_or_schedule).shape == ()
    except WeftTypeError:
        single = False
    if not single:
        wanted = "a number, or a function of the number of the step"
        raise not_a_function("make_schedule", scalar_or_schedule, wanted)
    return constant(scalar_or_schedule)


# ---- trees ---------------------------------------------------------------------------------------


def l2_norm(tree_of_arrays: Any) -> Any:
    """The Euclidean norm of all elements of a tree.

    Args:
        tree_of_arrays: A tree of arrays and numbers.

    >>> from weft.example_libraries import optimizers
    >>> optimizers.l2_norm({"a": 3.0, "b": jnp.array([0.0, 4.0])})
    Array(5., dtype=float32)
    """
    return jnp.sqrt(sum(jnp.vdot(x, x) for x in tree.leaves(tree_of_arrays)))


def clip_grads(grad_tree: Any, max_norm: Any) -> Any:
    """The gradients, scaled so that their norm is `max_norm` at most.

    Args:
        grad_tree: A tree of gradients.
        max_norm: The largest Euclidean norm of all gradients together.
    """
    norm = l2_norm(grad_tree)
    return tree.map(lambda g: jnp.where(norm < max_norm, g, g * (max_norm / norm)), grad_tree)


class JoinPoint:
    """Marks where the tree of the parameters ends and those of a leaf's own state begin.

    Args:
        subtree: The state of one leaf of the parameters, itself a tree.
    """

    def __init__(self, subtree: Any) -> None:
        self.subtree = subtree

    def __iter__(self) -> Any:
        yield self.subtree


def unpack_optimizer_state(opt_state: OptimizerState) -> Any:
    """The state as a tree of the parameters' structure, with a `JoinPoint` for each leaf: a form
    to store.

    Args:
        opt_state: The state, as `init_fn` and `update_fn` return it.
    """
    pairs = zip(opt_state.packed_state, opt_state.subtree_defs, strict=True)
    return opt_state.tree_def.unflatten([JoinPoint(d.unflatten(leaves)) for leaves, d in pairs])


def pack_optimizer_state(marked_pytree: Any) -> OptimizerState:
    """The state of what `unpack_optimizer_state` returned.

    Args:
        marked_pytree: A tree with a `JoinPoint` for each leaf of the parameters.
    """
    points, structure = tree.flatten(marked_pytree, is_leaf=lambda x: isinstance(x, JoinPoint))
    if not all(isinstance(x, JoinPoint) for x in points):
        message = "pack_optimizer_state takes a tree of JoinPoints"
        got, wanted = f"{points!r:.80}", "what unpack_optimizer_state returned"
        raise refusal(WeftTypeError, message, "pack_optimizer_state", got, wanted)
    pairs = [tree.flatten(point.subtree) for point in points]
    return OptimizerState([x for x, _ in pairs], structure, [d for _, d in pairs])
