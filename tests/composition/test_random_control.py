"""Random nestings of loops, branches and custom derivatives, against the same in plain Python.

A program is data: a block of nodes, each of which makes the value so far into another one of its
shape. Nodes with blocks inside them run those in a loop, in a branch, and so on, where they close
over everything outside. `control_cells.Plain` runs a program with Python's own control flow over
NumPy arrays and dual numbers, so that it also says what the derivatives are.
"""

from __future__ import annotations

import dataclasses
import functools

import hypothesis
import numpy as np
from hypothesis import strategies as st

import control_cells as cells
import weft
import weft.numpy as jnp
from closeness import close_trees
from control_cells import plain_forward
from dual_numbers import Reference, stack, value
from loop_cases import program
from weft import lax, tree
from weft.core.check import check_jaxpr
from weft.core.jaxpr import eval_jaxpr
from weft.interpreters.partial_eval import dce_jaxpr, partial_eval_jaxpr

SHAPES = [(), (2,), (2, 3)]


# ---- running programs --------------------------------------------------------------------------


class Plain(cells.Plain):
    """Python's own control flow, over NumPy arrays and dual numbers."""

    @staticmethod
    def rows(values, like):
        return list(values)

    @staticmethod
    def total_of_rows(rows, like):
        return functools.reduce(lambda a, b: a + b, rows, like * 0.0)

    @staticmethod
    def scan(body, carry, xs, reverse, unroll):
        ys = []
        for x in xs[::-1] if reverse else xs:
            carry, y = body(carry, x)
            ys.append(y)
        return carry, ys

    @staticmethod
    def map(function, xs, batch_size):
        return [function(x) for x in xs]

    @staticmethod
    def fori_loop(lower, upper, body, carry):
        for i in range(lower, upper):
            carry = body(i, carry)
        return carry

    @staticmethod
    def plain(function, block):
        return function

    checkpoint = custom_jvp = custom_vjp = jit = plain


class Weft:
    """The operations of weft."""

    sin, tanh, sum = jnp.sin, jnp.tanh, jnp.sum
    less, scan, cond, switch = jnp.less, lax.scan, lax.cond, lax.switch
    fori_loop, while_loop = lax.fori_loop, lax.while_loop
    count = cells.Weft.count

    @staticmethod
    def rows(values, like):
        values = list(values)
        return jnp.stack(values) if values else jnp.zeros((0, *like.shape), like.dtype)

    @staticmethod
    def total_of_rows(rows, like):
        return jnp.sum(rows, 0)

    @staticmethod
    def map(function, xs, batch_size):
        return lax.map(function, xs, batch_size=batch_size)

    @staticmethod
    def checkpoint(function, block):
        return weft.checkpoint(function)

    @staticmethod
    def jit(function, block):
        return weft.jit(function)

    @staticmethod
    def custom_jvp(function, block):
        custom = weft.custom_jvp(function)
        custom.defjvp(lambda xs, ts: (custom(*xs), weft.jvp(function, xs, ts)[1]))
        return custom

    @staticmethod
    def custom_vjp(function, block):
        custom = weft.custom_vjp(function)

        def backward(args, cotangent):
            if not kinds(block) & {"while"}:
                return weft.vjp(function, *args)[1](cotangent)
            jacobian = weft.jacfwd(function)(*args)
            return (jnp.tensordot(cotangent, jacobian, cotangent.ndim),)

        custom.defvjp(lambda *args: (custom(*args), args), backward)
        return custom


# ---- programs ----------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Node:
    """One step: what it does, a small number, whether it is turned round, and the blocks inside."""

    kind: str
    number: int = 0
    turned: bool = False
    blocks: tuple = ()


# How a node without blocks changes a value; `outer` is one that the program closes over.
SIMPLE = {
    "sin": lambda op, v, outer: op.sin(v),
    "total": lambda op, v, outer: op.tanh(v + op.sum(v) * 0.3),
    "product": lambda op, v, outer: v * outer * 0.5 + 0.1,
    "sum": lambda op, v, outer: v * 0.5 + outer,
    "square": lambda op, v, outer: op.tanh(v * v),
    "outer": lambda op, v, outer: v * 0.0 + outer,
}


def run(op, block, v, env):
    for node in block:
        if node.kind in SIMPLE:
            v = SIMPLE[node.kind](op, v, env[node.number % len(env)])
        else:
            v = COMPOUND[node.kind](op, node, v, env)
    return v


def inner(op, node, env, which=0):
    """A block of a node as a function, which closes over the values outside."""
    return lambda v, *more: run(op, node.blocks[which], v, [*more, *env])


def run_scan(op, node, v, env):
    """Carries a value, a counter, a value that nobody reads, and one that is never changed."""
    step = inner(op, node, env)

    def body(carry, x):
        c, n, dead, same = carry
        y = step(c * 0.7 + c * n * 0.1, x, same)
        return (y, n + 1, op.sin(dead) * y, same), (y * x, n, op.sin(y))

    xs = op.rows((env[0] * 0.3 * (i + 1) for i in range(node.number)), v)
    (c, n, _, same), ys = op.scan(
        body, (v, 0, v, v * 0.5), xs, reverse=node.turned, unroll=1 + node.number // 2
    )
    ys = [y[0] for y in ys] if isinstance(ys, list) else ys[0]
    return c + c * n * 0.05 + op.total_of_rows(ys, v) * 0.3 + same


def run_while(op, node, v, env):
    step = inner(op, node, env)

    def body(carry):
        c, n, dead = carry
        return step(c * 0.6), n + 1, dead * c

    return op.while_loop(lambda carry: carry[1] < node.number, body, (v, 0, v))[0]


def run_fori(op, node, v, env):
    step = inner(op, node, env)
    return op.fori_loop(0, node.number, lambda i, c: step(c * 0.6 + c * i * 0.1), v)


def run_map(op, node, v, env):
    step = inner(op, node, [v, *env])
    xs = op.rows((v * 0.4 * (i + 1) for i in range(node.number)), v)
    return op.total_of_rows(op.map(step, xs, 2 if node.turned else None), v) + v * 0.5


def run_cond(op, node, v, env):
    pred = op.less(0.0717, op.sum(v) * (1 - 2 * node.turned) + node.number * 0.2)
    return op.cond(pred, inner(op, node, env), inner(op, node, env, 1), v)


def run_switch(op, node, v, env):
    index = op.count(op.less(-0.313, op.sum(v)), op.less(0.497, op.sum(env[0])))
    branches = [inner(op, node, env), inner(op, node, env, 1), lambda v: v * env[0] * 0.5]
    return op.switch(index, branches[::-1] if node.turned else branches, v)


def run_dead(op, node, v, env):
    inner(op, node, env)(v)
    return v


def applied(transform):
    """A block as a function of its value that is called once, transformed."""

    def run_applied(op, node, v, env):
        return getattr(op, transform)(inner(op, node, [v * 0.5, *env]), node.blocks[0])(v)

    return run_applied


COMPOUND = {
    "scan": run_scan,
    "cond": run_cond,
    "switch": run_switch,
    "while": run_while,
    "fori": run_fori,
    "map": run_map,
    "checkpoint": applied("checkpoint"),
    "custom_jvp": applied("custom_jvp"),
    "custom_vjp": applied("custom_vjp"),
    "jit": applied("jit"),
    "dead": run_dead,
}
BRANCHING = ("cond", "switch")


def kinds(block):
    """The kinds of all nodes of a block."""
    found = {node.kind for node in block}
    return found.union(*(kinds(b) for node in block for b in node.blocks))


def blocks(depth):
    simple = st.builds(Node, st.sampled_from(sorted(SIMPLE)), st.integers(0, 2))
    if depth == 0:
        return st.lists(simple, min_size=1, max_size=2).map(tuple)
    inside = blocks(depth - 1)
    one = st.tuples(inside)
    two = st.tuples(inside, inside)
    names = sorted(set(COMPOUND) - {*BRANCHING, "scan"})
    compound = st.one_of(
        st.builds(Node, st.just("scan"), st.integers(0, 3), st.booleans(), one),
        st.builds(Node, st.sampled_from(names), st.integers(0, 3), st.booleans(), one),
        st.builds(Node, st.sampled_from(BRANCHING), st.integers(0, 3), st.booleans(), two),
    )
    return st.tuples(compound) | st.tuples(st.one_of(simple, compound), compound)


@dataclasses.dataclass(frozen=True)
class Program:
    """A block and the shape of its value; of three arguments the third has no dimensions."""

    block: tuple
    shape: tuple

    def run(self, op, x, y, s):
        return run(op, self.block, x, [y, x * s, s + x * 0.0])

    @functools.cached_property
    def weft(self):
        return lambda *args: self.run(Weft, *args)

    @functools.cached_property
    def plain(self):
        return lambda *args: self.run(Plain, *args)

    def total(self, *args):
        out = self.weft(*args)
        return jnp.sum(out * out)

    def plain_total(self, *args):
        out = self.plain(*args)
        return Reference.sum(out * out)


programs = st.builds(Program, blocks(3) | blocks(2) | blocks(1), st.sampled_from(SHAPES))
seeds = st.integers(0, 2**16)


def numbers(of, seed, count=None):
    """Random arguments; with `count`, so many of each along a first axis."""
    generator = np.random.default_rng(seed)
    lead = () if count is None else (count,)
    return [generator.uniform(-1.1, 1.1, lead + shape) for shape in (of.shape, of.shape, ())]


def arrays(values):
    return [jnp.array(v, np.float64) for v in values]


def same(got, wanted, what):
    """What cancels in a sum has the errors of the largest result."""
    wanted = np.asarray(value(wanted))
    assert (got.shape, got.dtype) == (wanted.shape, np.float64), what
    scale = max(1.0, np.max(np.abs(wanted), initial=0.0))
    np.testing.assert_allclose(np.asarray(got), wanted, rtol=1e-8, atol=1e-9 * scale, err_msg=what)


# ---- references for derivatives ----------------------------------------------------------------


def plain_gradient(f, args):
    """The gradient of a scalar function, as one vector, from one direction after the other."""
    sizes = [np.size(value(x)) for x in args]
    columns = []
    for one in np.eye(sum(sizes)):
        parts = np.split(one, np.cumsum(sizes)[:-1])
        directions = [p.reshape(np.shape(value(x))) for p, x in zip(parts, args, strict=True)]
        columns.append(plain_forward(f, args, directions))
    return stack(columns)


def flat(gradients):
    return jnp.concatenate([jnp.ravel(g) for g in gradients])


def references(of, args, directions, rows):
    """What the transformations give, by name; assumes that no comparison is close to equal."""
    cells.Plain.closest = np.inf

    def along(*args):
        return plain_forward(of.plain, args, directions)

    def gradient(*args):
        return plain_gradient(of.plain_total, args)

    found = {
        "value": of.plain(*args),
        "jvp": along(*args),
        "jvp of jvp": plain_forward(along, args, directions),
        "vmap": np.stack([of.plain(*row) for row in rows]),
    }
    if "while" not in kinds(of.block):
        found["grad"] = gradient(*args)
        found["jvp of grad"] = plain_forward(gradient, args, directions)
        found["vmap of grad"] = np.stack([gradient(*row) for row in rows])
    hypothesis.assume(cells.Plain.closest > 1e-5)
    return found


def transformations(of, directions, axes):
    """The same of weft, as functions of the arguments and the mapped arguments."""

    def along(*args):
        return weft.jvp(of.weft, args, directions)[1]

    def gradient(*args):
        return flat(weft.grad(of.total, (0, 1, 2))(*args))

    return {
        "value": lambda args, rows: of.weft(*args),
        "jvp": lambda args, rows: along(*args),
        "jvp of jvp": lambda args, rows: weft.jvp(along, tuple(args), directions)[1],
        "vmap": lambda args, rows: weft.vmap(of.weft, axes)(*rows),
        "grad": lambda args, rows: gradient(*args),
        "jvp of grad": lambda args, rows: weft.jvp(gradient, tuple(args), directions)[1],
        "vmap of grad": lambda args, rows: weft.vmap(gradient, axes)(*rows),
    }


# ---- the properties ----------------------------------------------------------------------------

AXES = [(0, 0, 0), (0, None, None), (None, 0, None), (None, None, 0)]


@hypothesis.settings(max_examples=35)
@hypothesis.given(programs, seeds, st.sampled_from(AXES))
def test_every_transformation_of_a_program_is_that_of_its_unrolled_twin(of, seed, axes):
    hosts = numbers(of, seed)
    mapped = numbers(of, seed + 1, 2)
    directions = tuple(arrays(numbers(of, seed + 2)))
    args = arrays(hosts)
    given = [m if axis == 0 else h for m, h, axis in zip(mapped, hosts, axes, strict=True)]
    rows = [[g[k] if a == 0 else g for g, a in zip(given, axes, strict=True)] for k in range(2)]
    wanted = references(of, hosts, [np.asarray(d) for d in directions], rows)
    functions = transformations(of, directions, axes)

    @weft.jit
    def together(args, rows):
        return {name: functions[name](args, rows) for name in wanted}

    got = together(args, arrays(given))
    for name, expected in wanted.items():
        same(got[name], expected, f"{name} under jit")
    for name in ("value", "grad" if "grad" in wanted else "jvp"):
        same(functions[name](args, arrays(given)), wanted[name], name)


@hypothesis.settings(max_examples=40)
@hypothesis.given(st.builds(Program, blocks(3) | blocks(2), st.just(())))
def test_programs_of_python_numbers_are_well_typed(of):
    """Weak types go through every transformation; each program is checked as it is traced."""
    reverse = "while" not in kinds(of.block)
    for name, transformed in transformations(of, (1.0, -0.5, 2.0), (0, None, None)).items():
        if "grad" not in name or reverse:
            rows = (jnp.ones(2), 0.4, -0.7)
            weft.make_jaxpr(lambda args, rows, f=transformed: f(args, rows))((0.3, 0.8, 0.5), rows)


def outputs_on_the_way(of):
    """The program with what every node of its outermost block gives, and an integer."""

    def function(x, y, s):
        v, outs = x, []
        for node in of.block:
            v = run(Weft, (node,), v, [y, x * s, s + x * 0.0])
            outs.append(v)
        return [*outs, jnp.less(0.0, s).astype(np.int32) + 1]

    return function


def as_program(of, args, differentiated):
    f = outputs_on_the_way(of)
    if differentiated:
        return program(lambda *xs: weft.jvp(lambda *ys: f(*ys)[:-1], xs, tuple(args)), *args)
    return program(f, *args)


@hypothesis.settings(max_examples=40)
@hypothesis.given(programs, seeds, st.booleans(), st.data())
def test_the_parts_of_a_program_together_are_the_whole(of, seed, differentiated, data):
    args = arrays(numbers(of, seed))
    jaxpr, consts = as_program(of, args, differentiated)
    values = [*consts, *args]
    wanted = eval_jaxpr(jaxpr, (), *values)
    unknown = data.draw(st.tuples(*[st.booleans()] * 3), label="unknown")
    forced = data.draw(st.tuples(*[st.booleans()] * len(wanted)), label="forced to be unknown")
    flags = (False,) * len(consts) + unknown
    split = partial_eval_jaxpr(jaxpr, flags, forced)
    check_jaxpr(split.known)
    check_jaxpr(split.unknown)
    assert all(out for out, force in zip(split.unknown_out, forced, strict=True) if force)
    early = split.unknown_out.count(False)
    known = eval_jaxpr(
        split.known, (), *(v for v, flag in zip(values, flags, strict=True) if not flag)
    )
    late = [v for v, flag in zip(values, flags, strict=True) if flag]
    later = iter(eval_jaxpr(split.unknown, (), *known[early:], *late))
    first = iter(known[:early])
    close_trees(
        [next(later) if flag else next(first) for flag in split.unknown_out], wanted, 1e-9, 1e-9
    )


@hypothesis.settings(max_examples=40)
@hypothesis.given(programs, seeds, st.booleans(), st.data())
def test_a_program_without_its_dead_code_gives_the_same(of, seed, differentiated, data):
    args = arrays(numbers(of, seed))
    jaxpr, consts = as_program(of, args, differentiated)
    values = [*consts, *args]
    wanted = eval_jaxpr(jaxpr, (), *values)
    used = data.draw(st.tuples(*[st.booleans()] * len(wanted)), label="used")
    small, reads = dce_jaxpr(jaxpr, used)
    check_jaxpr(small)
    got = eval_jaxpr(small, (), *(v for v, read in zip(values, reads, strict=True) if read))
    close_trees(got, [v for v, use in zip(wanted, used, strict=True) if use], 1e-9, 1e-9)
    again, reads_again = dce_jaxpr(small, (True,) * len(small.outputs))
    assert all(reads_again) and len(again.eqns) == len(small.eqns)


def test_programs_hold_every_kind_of_node():
    """Each kind alone, so that what is drawn at random is not the only thing that is run."""
    for kind in COMPOUND:
        parts = (Node("sin"),), (Node("product", 1),)
        of = Program((Node(kind, 2, True, parts[: 1 + (kind in BRANCHING)]),), (2,))
        hosts = numbers(of, 3)
        assert kinds(of.block) >= {kind, "sin"}
        same(of.weft(*arrays(hosts)), of.plain(*hosts), kind)
        if kind != "dead":
            assert tree.leaves(of.plain(*hosts))[0].shape == (2,)
