"""The functions of `weft.tree` under the names that programs written for JAX use."""

from weft.base.facades import public_names
from weft.tree import (
    DictKey,
    FlattenedIndexKey,
    GetAttrKey,
    KeyEntry,
    KeyPath,
    Partial,
    PyTreeDef,
    SequenceKey,
    all_leaves,
    broadcast_prefix,
    equality_errors,
    flatten_one_level,
    flatten_one_level_with_keys,
    keystr,
    prefix_errors,
    register_dataclass,
    register_static,
    treedef_children,
    treedef_is_leaf,
    treedef_tuple,
)
from weft.tree import all as tree_all
from weft.tree import broadcast as tree_broadcast
from weft.tree import flatten as tree_flatten
from weft.tree import flatten_with_path as tree_flatten_with_path
from weft.tree import is_node as is_tree_node
from weft.tree import leaves as tree_leaves
from weft.tree import leaves_with_path as tree_leaves_with_path
from weft.tree import map as tree_map
from weft.tree import map_with_path as tree_map_with_path
from weft.tree import reduce as tree_reduce
from weft.tree import reduce_associative as tree_reduce_associative
from weft.tree import register_class as register_pytree_node_class
from weft.tree import register_class_with_keys as register_pytree_with_keys_class
from weft.tree import register_node as register_pytree_node
from weft.tree import register_with_keys as register_pytree_with_keys
from weft.tree import registry as default_registry
from weft.tree import structure as tree_structure
from weft.tree import transpose as tree_transpose
from weft.tree import unflatten as tree_unflatten

# fmt: off
__all__ = [
    "DictKey", "FlattenedIndexKey", "GetAttrKey", "KeyEntry", "KeyPath", "Partial", "PyTreeDef",
    "SequenceKey", "all_leaves", "broadcast_prefix", "default_registry", "equality_errors",
    "flatten_one_level", "flatten_one_level_with_keys", "is_tree_node", "keystr", "prefix_errors",
    "register_dataclass", "register_pytree_node", "register_pytree_node_class",
    "register_pytree_with_keys", "register_pytree_with_keys_class", "register_static", "tree_all",
    "tree_broadcast", "tree_flatten", "tree_flatten_with_path", "tree_leaves",
    "tree_leaves_with_path", "tree_map", "tree_map_with_path", "tree_reduce",
    "tree_reduce_associative", "tree_structure", "tree_transpose", "tree_unflatten",
    "treedef_children", "treedef_is_leaf", "treedef_tuple",
]
# fmt: on

__dir__ = public_names(globals())
