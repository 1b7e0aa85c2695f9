"""Chex: dataclasses as trees, checks of shapes and traces, variants, and values checked when
compiled.
"""

import chex
import jax
import jax.numpy as jnp
import numpy as np

DISTRIBUTION = "chex"


@chex.dataclass
class Particle:
    position: chex.Array
    velocity: chex.Array
    mass: float = 1.0


@chex.dataclass(frozen=True, mappable_dataclass=False)
class Settings:
    step: float
    friction: float


def advance(particle, settings):
    chex.assert_rank([particle.position, particle.velocity], 2)
    chex.assert_equal_shape([particle.position, particle.velocity])
    force = -particle.position - settings.friction * particle.velocity
    velocity = particle.velocity + settings.step * force / particle.mass
    return particle.replace(
        position=particle.position + settings.step * velocity, velocity=velocity
    )


def refused(check, *args, **kwargs):
    try:
        check(*args, **kwargs)
    except AssertionError:
        return True
    return False


class Counts(chex.TestCase):
    """What Chex' variants run: with and without jit, on devices, by pmap."""

    @chex.variants(with_jit=True, without_jit=True, with_device=True, without_device=True)
    def test_square(self):
        square = self.variant(lambda x: x**2)
        self.assertEqual(float(square(jnp.array(3.0))), 9.0)

    def runTest(self):
        """Names a case of its own, for its helpers."""


def variants():
    import unittest

    suite = unittest.defaultTestLoader.loadTestsFromTestCase(Counts)
    result = unittest.TestResult()
    suite.run(result)
    return result.testsRun, len(result.errors) + len(result.failures)


def guarded(x):
    return chex.chexify(positive, async_check=False)(x)


@jax.jit
def positive(x):
    chex.assert_trees_all_equal(x, jnp.abs(x))
    return jnp.sqrt(x)


def traces():
    @jax.jit
    @chex.assert_max_traces(n=1)
    def once(x):
        return x + 1

    once(jnp.ones(2))
    once(jnp.ones(2))
    return refused(once, jnp.ones(3))


def main(timed):
    rng = np.random.default_rng(6)
    particle = Particle(position=jnp.asarray(rng.normal(size=(5, 2)), jnp.float32),
                        velocity=jnp.zeros((5, 2)))  # fmt: skip
    settings = Settings(step=0.05, friction=0.2)
    step = timed(jax.jit(advance))
    for _ in range(50):
        particle = step(particle, settings)
    batch = jax.vmap(lambda p: advance(p, settings))(
        jax.tree.map(lambda x: jnp.stack([x, 2 * x]), particle)
    )
    run, failed = variants()
    tree = {"a": jnp.ones(3), "b": (jnp.zeros(2), jnp.array(1))}
    with chex.fake_jit():
        untraced = jax.jit(lambda x: x if isinstance(x, jax.core.Tracer) else x + 1)(jnp.ones(2))
    return {
        "position": particle["position"],
        "velocity": particle.velocity,
        "batch": batch.position,
        "variants": run,
        "variants_failed": failed,
        "guarded": guarded(jnp.array([1.0, 4.0])),
        "guard_raises": refused(guarded, jnp.array([-1.0, 4.0])),
        "traces": traces(),
        "shape": refused(chex.assert_shape, tree["a"], (2,)),
        "type": refused(chex.assert_type, tree["a"], int),
        "close": refused(chex.assert_trees_all_close, tree, jax.tree.map(lambda x: x + 1, tree)),
        "same": refused(chex.assert_trees_all_equal_shapes_and_dtypes, tree, tree),
        "untraced": untraced,
        "finite": refused(chex.assert_tree_all_finite, {"x": jnp.array([jnp.nan])}),
    }
