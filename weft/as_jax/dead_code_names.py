"""The names of `jax.interpreters.partial_eval` whose objects differ from weft's of those names."""

from weft.define.partial_evaluation import with_instantiated_inputs as dce_jaxpr
from weft.define.rule_mappings import dce_rules

__all__ = ["dce_jaxpr", "dce_rules"]
