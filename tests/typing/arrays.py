"""What type checkers make of arrays and functions of them; see `transformations.py`."""

import functools
from typing import Any, reveal_type

import numpy as np

import weft
import weft.numpy as wnp
from weft import lax, nn
from weft.typing import Array, ArrayLike, DTypeLike

x = wnp.ones((2, 3), "float32")

# ---- the class ---------------------------------------------------------------------------------

reveal_type(x)  # T: Array
reveal_type(x.shape)  # T: tuple[int, ...]
reveal_type(x.ndim)  # T: int
reveal_type(x.T)  # T: Array
reveal_type(x + 1)  # T: Array
reveal_type(1 + x)  # T: Array
reveal_type(-x)  # T: Array
reveal_type(x @ x.T)  # T: Array
reveal_type(x == x)  # T: Array
reveal_type(x < 2.0)  # T: Array
reveal_type(x[0, 1:])  # T: Array
reveal_type(divmod(x, 2))  # T: tuple[Array, Array]
reveal_type(x.sum(axis=0).reshape(-1).astype("int32"))  # T: Array
reveal_type(x.nonzero())  # T: tuple[Array, ...]
reveal_type(list(x))  # T: list[Array]
reveal_type(len(x))  # T: int
reveal_type(float(x.sum()))  # T: float
reveal_type(np.asarray(x).sum(axis=0) is None)  # T: bool
x.summ()  # E: attr-defined, reportAttributeAccessIssue
x.sum(axes=0)  # E: call-arg, reportCallIssue
x.shape = (6,)  # E: misc, reportAttributeAccessIssue


def narrowed(value: Array | str) -> Array:
    if isinstance(value, weft.Array):
        reveal_type(value)  # T: Array
        return value
    reveal_type(value)  # T: str
    return wnp.zeros(len(value))


@functools.singledispatch
def describe(value: Any) -> str:
    return "something"


@describe.register
def _(value: weft.Array) -> str:
    return str(value.shape)


reveal_type(describe(x))  # T: str


def annotated(a: ArrayLike, dtype: DTypeLike = "float32") -> Array:
    return wnp.asarray(a, dtype)


class StandsFor:
    def __weft_array__(self) -> Array:
        return wnp.ones(3)


annotated(2), annotated(2.0j), annotated(True), annotated(np.ones(2)), annotated(np.float32(1.0))
annotated(x), annotated(StandsFor())
annotated(x, np.float32), annotated(x, np.dtype("int8")), annotated(x, float)
annotated(x, wnp.bfloat16), annotated(x, x.dtype)
annotated("x")  # E: arg-type, reportArgumentType
annotated([1.0])  # E: arg-type, reportArgumentType
annotated(None)  # E: arg-type, reportArgumentType
annotated(x, 3)  # E: arg-type, reportArgumentType

# ---- weft.numpy --------------------------------------------------------------------------------

reveal_type(wnp.sin(2.0))  # T: Array
reveal_type(wnp.add(x, 1))  # T: Array
reveal_type(wnp.sum(x, axis=0))  # T: Array
reveal_type(wnp.where(x > 0, x, 0.0))  # T: Array
reveal_type(wnp.where(x > 0))  # T: tuple[Array, ...]
reveal_type(wnp.nonzero(x))  # T: tuple[Array, ...]
reveal_type(wnp.concatenate([x, x]))  # T: Array
reveal_type(wnp.split(x, 2))  # T: list[Array]
reveal_type(wnp.einsum("ij,kj->ik", x, x))  # T: Array
reveal_type(wnp.zeros(3))  # T: Array
reveal_type(wnp.arange(3))  # T: Array
reveal_type(wnp.asarray([1, 2]))  # T: Array
reveal_type(wnp.matmul(x, x.T))  # T: Array
reveal_type(wnp.sort(x))  # T: Array
reveal_type(wnp.float32(1))  # T: Array
reveal_type(wnp.indices((2, 3)))  # T: Array
reveal_type(wnp.indices((2, 3), sparse=True))  # T: tuple[Array, ...]
reveal_type(wnp.shape(x))  # T: tuple[int, ...]
reveal_type(wnp.pi)  # T: float
wnp.sin("x")  # E: arg-type, reportArgumentType
wnp.sin([1.0])  # E: arg-type, reportArgumentType
wnp.add(x)  # E: call-arg, reportCallIssue
wnp.sum(x, axes=0)  # E: call-arg, reportCallIssue
wnp.sum([1.0])  # E: arg-type, reportArgumentType
wnp.sinus(x)  # E: attr-defined, reportAttributeAccessIssue

# ---- weft.lax, weft.nn -------------------------------------------------------------------------

reveal_type(lax.sin(x))  # T: Array
reveal_type(lax.add(x, 1.0))  # T: Array
reveal_type(lax.dot(x, x.T))  # T: Array
reveal_type(lax.top_k(x, 2))  # T: tuple[Array, Array]
reveal_type(lax.broadcast_in_dim(x, (2, 3, 4), (0, 1)))  # T: Array
reveal_type(nn.relu(x))  # T: Array
reveal_type(nn.softmax(x, axis=-1))  # T: Array
reveal_type(nn.one_hot(wnp.arange(3), 4))  # T: Array
lax.sin("x")  # E: arg-type, reportArgumentType
lax.sinus(x)  # E: attr-defined, reportAttributeAccessIssue
nn.relu([1.0])  # E: arg-type, reportArgumentType

# ---- names there are not -----------------------------------------------------------------------

weft.gradient  # E: attr-defined, reportAttributeAccessIssue  # noqa: B018
weft.random.key(0)
weft.scipy, weft.image, weft.testing, weft.typing  # noqa: B018
