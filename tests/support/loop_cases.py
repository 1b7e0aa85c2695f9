"""What the tests of loops share: the same loops unrolled in Python, and properties of programs."""

from __future__ import annotations

import itertools

import weft
import weft.numpy as jnp
from closeness import close_trees as close
from weft import tree
from weft.core.check import check_jaxpr
from weft.core.jaxpr import Jaxpr, eval_jaxpr, jaxprs_in
from weft.interpreters.partial_eval import dce_jaxpr, partial_eval_jaxpr


def unrolled_scan(f, init, xs=None, length=None, reverse=False, unroll=1):
    """`scan` as a loop of Python over one step or more."""
    leaves = tree.leaves(xs)
    n = len(leaves[0]) if leaves else length
    order = range(n - 1, -1, -1) if reverse else range(n)
    carry, ys = init, [None] * n
    for i in order:
        carry, ys[i] = f(carry, tree.map(lambda x, i=i: x[i], xs))
    return carry, tree.map(lambda *rows: jnp.stack(rows), *ys)


def unrolled_while(condition, body, init):
    """`while_loop` as a loop of Python, for carried values that are known."""
    carry = init
    while bool(condition(carry)):
        carry = body(carry)
    return carry


def unrolled_fori(lower, upper, body, init, unroll=None):
    """`fori_loop` as a loop of Python."""
    carry = init
    for i in range(lower, upper):
        carry = body(i, carry)
    return carry


def names(jaxpr):
    """The primitives of a program and of all the programs inside it."""
    found = []
    for eqn in jaxpr.eqns:
        found.append(eqn.primitive.name)
        for inner in jaxprs_in(eqn.params):
            found += names(inner)
    return found


def equations(jaxpr, name):
    """The equations of one primitive, those of inner programs included."""
    found = []
    for eqn in jaxpr.eqns:
        if eqn.primitive.name == name:
            found.append(eqn)
        for inner in jaxprs_in(eqn.params):
            found += equations(inner, name)
    return found


def program(f, *args):
    """The program of a function as one without constants, and the constants' values."""
    closed = weft.make_jaxpr(f)(*args)
    jaxpr = closed.jaxpr
    return Jaxpr(jaxpr.inputs, jaxpr.eqns, jaxpr.outputs, 0), list(closed.consts)


def check_every_split(f, *args):
    """Whatever inputs are unknown, the two parts of a program give what the whole gives."""
    jaxpr, consts = program(f, *args)
    values = [*consts, *map(jnp.asarray, tree.leaves(args))]
    wanted = eval_jaxpr(jaxpr, (), *values)
    n = len(consts)
    for unknown in itertools.product([False, True], repeat=len(values) - n):
        flags = (False,) * n + unknown
        split = partial_eval_jaxpr(jaxpr, flags)
        check_jaxpr(split.known)
        check_jaxpr(split.unknown)
        known = eval_jaxpr(
            split.known, (), *(v for v, flag in zip(values, flags, strict=True) if not flag)
        )
        early = split.unknown_out.count(False)
        later = eval_jaxpr(
            split.unknown,
            (),
            *known[early:],
            *(v for v, flag in zip(values, flags, strict=True) if flag),
        )
        first, second = iter(known[:early]), iter(later)
        got = [next(second) if flag else next(first) for flag in split.unknown_out]
        close(got, wanted)


def check_every_use(f, *args):
    """Whatever results are used, the smaller program gives what the whole gives for them."""
    jaxpr, consts = program(f, *args)
    values = [*consts, *map(jnp.asarray, tree.leaves(args))]
    everything = eval_jaxpr(jaxpr, (), *values)
    for used in itertools.product([False, True], repeat=len(everything)):
        small, reads = dce_jaxpr(jaxpr, used)
        check_jaxpr(small)
        got = eval_jaxpr(small, (), *(v for v, read in zip(values, reads, strict=True) if read))
        close(got, [v for v, use in zip(everything, used, strict=True) if use])
