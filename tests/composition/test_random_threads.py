"""Random programs run by threads at once give what NumPy gives: none sees another's traces."""

from __future__ import annotations

import hypothesis
import numpy as np
from hypothesis import strategies as st

import weft
import weft.numpy as jnp
from at_once import together
from random_programs import Numpy, arguments, kink, programs, same

# What a thread does with a program of weft and its arguments.
WAYS = {
    "eager": lambda program, args: program.weft(*args),
    "jitted": lambda program, args: weft.jit(program.weft)(*args),
    "mapped": lambda program, args: [
        out[1] for out in weft.vmap(program.weft)(*(jnp.stack([x * 0.5, x]) for x in args))
    ],
    "linearized": lambda program, args: weft.linearize(program.weft, *args)[0],
    "differentiated": lambda program, args: weft.jvp(program.weft, tuple(args), tuple(args))[0],
    "with its gradient": lambda program, args: [
        weft.jit(weft.value_and_grad(program.total, tuple(range(len(args)))))(*args)[0]
    ],
}
threads = st.lists(st.tuples(programs(), st.sampled_from(sorted(WAYS))), min_size=2, max_size=5)


@hypothesis.settings(max_examples=10)
@hypothesis.given(threads)
def test_programs_of_threads_do_not_see_one_another(drawn):
    def work(k):
        (program, seed), way = drawn[k]
        hosts, args = arguments(program, seed)
        wanted = program.run(Numpy, *hosts)
        if way == "with its gradient":
            wanted = [sum(np.sum(out) * (0.5 + i) for i, out in enumerate(wanted))]
        return WAYS[way](program, args), wanted

    for (program, seed), _ in drawn:
        hypothesis.assume(not kink(program, arguments(program, seed)[0]))
        hypothesis.assume(not kink(program, [x * 0.5 for x in arguments(program, seed)[0]]))
    for got, wanted in together(work, len(drawn)):
        same(got, wanted)


@hypothesis.settings(max_examples=10)
@hypothesis.given(programs(), st.integers(2, 5))
def test_threads_share_a_jitted_function(drawn, count):
    """Each calls it first with arguments of its own; all find the same program afterwards."""
    program, seed = drawn
    given = [arguments(program, seed + k) for k in range(count)]
    hypothesis.assume(not any(kink(program, hosts) for hosts, _ in given))
    traced = []

    def body(*args):
        traced.append(1)
        return program.weft(*args)

    jitted = weft.jit(body)
    for (hosts, _), got in zip(given, together(lambda k: jitted(*given[k][1]), count), strict=True):
        same(got, program.run(Numpy, *hosts))
    before = len(traced)
    for hosts, args in given:
        same(jitted(*args), program.run(Numpy, *hosts))
    assert len(traced) == before
