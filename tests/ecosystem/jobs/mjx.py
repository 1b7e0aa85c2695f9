"""MuJoCo MJX: driven double pendulums and a ball that falls onto a plane, in a batch, and inverse
kinematics by gradients.
"""

import jax
import jax.numpy as jnp
import mujoco
from mujoco import mjx

DISTRIBUTION = "mujoco-mjx"
# Contacts amplify rounding from step to step.
TOLERANCE = 1e-4

MODEL = """
<mujoco>
  <option timestep="0.01" iterations="2" ls_iterations="4"/>
  <worldbody>
    <geom type="plane" size="5 5 0.1"/>
    <body pos="0 0 2">
      <joint name="upper" type="hinge" axis="0 1 0" damping="0.1"/>
      <geom type="capsule" size="0.05" fromto="0 0 0 0 0 -0.5" contype="0" conaffinity="0"/>
      <body pos="0 0 -0.5">
        <joint name="lower" type="hinge" axis="0 1 0" damping="0.1"/>
        <geom type="capsule" size="0.05" fromto="0 0 0 0 0 -0.5" contype="0" conaffinity="0"/>
        <site name="tip" pos="0 0 -0.5"/>
      </body>
    </body>
    <body pos="0 0 0.12">
      <freejoint/>
      <geom type="sphere" size="0.1" density="500"/>
    </body>
  </worldbody>
  <actuator><motor joint="lower" gear="2"/></actuator>
</mujoco>
"""


def main(timed):
    model = mujoco.MjModel.from_xml_string(MODEL)
    m, start = mjx.put_model(model), mjx.make_data(model)

    def final(control, angles):
        data = start.replace(qpos=start.qpos.at[:2].set(angles), ctrl=control)

        def advance(data, _):
            data = mjx.step(m, data)
            return data, data.qpos

        data, path = jax.lax.scan(advance, data, length=20)
        return data.qpos, data.qvel, data.qfrc_constraint, path

    starts = jnp.linspace(-1.0, 1.0, 6).reshape(3, 2)
    run = timed(jax.jit(jax.vmap(final, in_axes=(None, 0))))
    for scale in (0.0, 0.5, 1.0):
        qpos, qvel, force, path = run(jnp.array([scale]), starts)

    def distance(angles):
        data = mjx.kinematics(m, start.replace(qpos=start.qpos.at[:2].set(angles)))
        return jnp.sum((data.site_xpos[0] - jnp.array([0.6, 0.0, 1.5])) ** 2)

    descend = timed(jax.jit(jax.vmap(lambda angles: angles - 0.4 * jax.grad(distance)(angles))))
    angles = starts
    for _ in range(20):
        angles = descend(angles)
    return {"qpos": qpos, "qvel": qvel, "force": force, "path": path, "angles": angles}
