"""What the tests of `checkpoint` share: a layer with every kind of operation, and the policies."""

from __future__ import annotations

import numpy as np

import weft
import weft.numpy as jnp

policies = weft.checkpoint_policies
generator = np.random.default_rng(11)
W = {
    "first": (generator.normal(size=(3, 4)) * 0.5).astype(np.float32),
    "second": (generator.normal(size=(4, 3)) * 0.5).astype(np.float32),
}
X = generator.normal(size=(2, 3)).astype(np.float32)

POLICIES = {
    "none": None,
    "everything": policies.everything_saveable,
    "nothing": policies.nothing_saveable,
    "dots": policies.dots_saveable,
    "checkpoint_dots": policies.checkpoint_dots,
    "dots_without_batch": policies.dots_with_no_batch_dims_saveable,
    "names": policies.save_only_these_names("hidden"),
    "other_names": policies.save_any_names_but_these("hidden"),
    "all_but_names": policies.save_anything_except_these_names("hidden"),
    "both": policies.save_from_both_policies(
        policies.dots_saveable, policies.save_only_these_names("hidden")
    ),
    "moved_names": policies.save_and_offload_only_these_names(
        names_which_can_be_saved=[],
        names_which_can_be_offloaded=["hidden"],
        offload_src="device",
        offload_dst="pinned_host",
    ),
    "moved_dots": policies.offload_dot_with_no_batch_dims("device", "pinned_host"),
    "own": lambda primitive, *types, **params: primitive.name == "exp",
}


def layer(w, x):
    hidden = weft.checkpoint_name(jnp.sin(x @ w["first"]), "hidden")
    return jnp.exp(jnp.tanh(hidden @ w["second"])) * x


def remat(policy=None, **options):
    return lambda f: weft.checkpoint(f, policy=policy, **options)
