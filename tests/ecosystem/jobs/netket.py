"""NetKet: the ground state of a spin chain by variational Monte Carlo with stochastic
reconfiguration, against exact diagonalization, and a step of time evolution.
"""

import jax
import jax.numpy as jnp
import netket as nk
import numpy as np

DISTRIBUTION = "netket"


def main(timed):
    chain = nk.graph.Chain(8)
    space = nk.hilbert.Spin(0.5, chain.n_nodes)
    ising = nk.operator.IsingJax(space, chain, h=1.0)
    exact = nk.exact.lanczos_ed(ising)[0]

    model = nk.models.RBM(alpha=1, param_dtype=float)
    sampler = nk.sampler.MetropolisLocal(space, n_chains=16)
    state = nk.vqs.MCState(
        sampler, model, n_samples=256, n_discard_per_chain=4, seed=1, sampler_seed=2
    )
    driver = nk.driver.VMC(
        ising, nk.optimizer.Sgd(0.05), variational_state=state,
        preconditioner=nk.optimizer.SR(diag_shift=0.05, solver=nk.optimizer.solver.cholesky),
    )  # fmt: skip
    energies = []
    step = timed(lambda: (driver.run(1, show_progress=False), state.parameters)[1])
    for _ in range(8):
        step()
        energies.append(driver.energy.mean.real)

    full = nk.vqs.FullSumState(space, nk.models.Jastrow(param_dtype=float), seed=3)
    before = full.expect(ising).mean
    stats, gradient = full.expect_and_grad(ising)
    geometry = nk.optimizer.qgt.QGTJacobianDense(full, mode="real")
    solved, _ = geometry.solve(jax.scipy.sparse.linalg.cg, gradient)
    states = space.all_states()[::37]
    return {
        "exact": exact,
        "energies": np.array(energies),
        "samples": state.samples,
        "rbm": state.parameters["Dense"]["kernel"],
        "full": np.array([before.real, stats.mean.real]),
        "gradient": gradient["kernel"],
        "direction": geometry.to_dense() @ jnp.ones(geometry.to_dense().shape[1]),
        "solved": jnp.linalg.norm(solved["kernel"]),
        "connected": ising.get_conn_padded(states)[1],
        "dense": ising.to_dense()[:5, :5],
    }
