"""What type checkers make of functions of trees; see `transformations.py`."""

import dataclasses
import operator
from typing import Any, NamedTuple, reveal_type

import numpy as np

import weft
import weft.numpy as wnp
from weft import Array, tree


class Layer(NamedTuple):
    w: Array
    b: Array


@dataclasses.dataclass
class Model:
    w: Array


x = wnp.ones(3)
params = {"w": x}
nested: dict[str, list[Layer]] = {"a": [Layer(x, x)]}
moments = {"w": (x, x)}
structs = {"w": weft.ShapeDtypeStruct((3,), "float32")}
anything: Any = params
state: dict[str, Any] = {"w": x}


def double(x: Array) -> Array:
    return 2 * x


def name_of(x: Array) -> str:
    return str(x.dtype)


def not_said(x, y=None):  # E: no-untyped-def, -
    return x


# ---- a tree of arrays stays one where arrays become arrays --------------------------------------

reveal_type(tree.map(double, params))  # T: dict[str, Array]
reveal_type(tree.map(wnp.sin, nested)["a"][0].w)  # T: Array
reveal_type(tree.map(wnp.add, (x, x), (x, x)))  # T: tuple[Array, Array]
reveal_type(tree.map(wnp.sin, x))  # T: Array
reveal_type(tree.map(lambda x: 2 * x, nested))  # T: Any, dict[str, list[Layer]]
reveal_type(tree.map(lambda p, g: p - 0.1 * g, params, params))  # T: Any, dict[str, Array]
reveal_type(tree.map(lambda p, m: p * m[0], params, moments))  # T: Any, dict[str, Array]
reveal_type(weft.tree_util.tree_map(double, params))  # T: dict[str, Array]
reveal_type(weft.jit(lambda p: tree.map(double, p))(params))  # T: Any

# ---- and nothing is said where that is not known ------------------------------------------------

reveal_type(tree.map(name_of, params))  # T: Any
reveal_type(tree.map(np.asarray, params))  # T: Any
reveal_type(tree.map(not_said, params))  # T: Any
reveal_type(tree.map(not_said, params, params))  # T: Any
reveal_type(tree.map(lambda x: x.shape, params))  # T: Any
reveal_type(tree.map(lambda x: x.sum().item(), params))  # T: Any
reveal_type(tree.map(lambda s: wnp.zeros(s.shape), structs))  # T: Any
reveal_type(tree.map(wnp.asarray, {"w": 1.0}))  # T: Any
reveal_type(tree.map(double, Model(x)))  # T: Any
reveal_type(tree.map(wnp.stack, [[x, x]], is_leaf=lambda t: len(t) == 2))  # T: Any
reveal_type(tree.map(lambda p, g, m: p - g * m, params, params, params))  # T: Any
# The argument of a function is taken for an array only where the leaves are known to be arrays.
reveal_type(tree.map(lambda x: x.spec, anything))  # T: Any
reveal_type(tree.map(lambda x: x.spec, state))  # T: Any
reveal_type(tree.map(lambda p, s: s.spec, params, state))  # T: Any
reveal_type(tree.map(lambda text: text.upper(), {"a": "text"}))  # T: Any
tree.map(double, params, leaf=None)  # E: call-overload, reportCallIssue reportArgumentType
tree.map(3, params)  # E: call-overload, reportCallIssue reportArgumentType

# ---- reductions --------------------------------------------------------------------------------

reveal_type(tree.reduce(operator.add, params, 0.0))  # T: float
reveal_type(tree.reduce(wnp.add, params))  # T: Array
reveal_type(tree.reduce(lambda total, x: total + x.size, params, 0))  # T: int, Any
reveal_type(tree.reduce_associative(wnp.add, params))  # T: Array
reveal_type(tree.leaves(params))  # T: list[Any]
tree.reduce(wnp.add, params, initial=0)  # E: call-overload, reportCallIssue
