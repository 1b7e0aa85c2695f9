"""A reference for derivatives of any order: forward mode in NumPy, with dual numbers.

Nothing of weft is used here. A value is a NumPy array or a dual whose parts are values, one level
for each derivative that is being taken, the innermost derivative outermost.
"""

from __future__ import annotations

import numpy as np


class Dual:
    """a + b e with e e = 0; `a` and `b` are NumPy arrays or duals of an inner derivative."""

    __array_ufunc__ = None

    def __init__(self, a, b):
        self.a, self.b = a, b

    def __add__(self, other):
        return (
            Dual(self.a + other.a, self.b + other.b)
            if isinstance(other, Dual)
            else Dual(self.a + other, self.b + other * 0.0)  # which repeats b as it repeats a
        )

    def __mul__(self, other):
        if isinstance(other, Dual):
            return Dual(self.a * other.a, self.a * other.b + self.b * other.a)
        return Dual(self.a * other, self.b * other)

    __radd__, __rmul__ = __add__, __mul__

    def __neg__(self):
        return Dual(-self.a, -self.b)

    def __sub__(self, other):
        return self + (-other)

    def __rsub__(self, other):
        return -self + other

    def __getitem__(self, index):
        return Dual(self.a[index], self.b[index])


def lift(function, derivative):
    def lifted(x):
        if isinstance(x, Dual):
            return Dual(lifted(x.a), derivative(x.a) * x.b)
        return function(x)

    return lifted


class Reference:
    """The operations that the base functions use, on NumPy arrays and duals."""

    sin = staticmethod(lift(np.sin, lambda x: Reference.cos(x)))
    cos = staticmethod(lift(np.cos, lambda x: -Reference.sin(x)))
    exp = staticmethod(lift(np.exp, lambda x: Reference.exp(x)))
    tanh = staticmethod(lift(np.tanh, lambda x: 1.0 - Reference.tanh(x) * Reference.tanh(x)))

    @staticmethod
    def sum(x):
        return Dual(Reference.sum(x.a), Reference.sum(x.b)) if isinstance(x, Dual) else np.sum(x)

    @staticmethod
    def product(matrix, x):
        if isinstance(x, Dual):
            return Dual(Reference.product(matrix, x.a), Reference.product(matrix, x.b))
        return matrix @ x

    @staticmethod
    def constant(value):
        return value

    @staticmethod
    def jit(function):
        return function

    @staticmethod
    def cond(positive, when, otherwise, x):
        return when(x) if value(positive) > 0 else otherwise(x)


def value(x):
    """The NumPy array that a value is without its derivatives."""
    while isinstance(x, Dual):
        x = x.a
    return x


def forward(f, x, direction):
    """The derivative of `f` at `x` along a constant direction."""
    token = Dual(x, promote(direction, x))
    return tangent_of(f(token), x)


def promote(value, like):
    """A constant with as many levels of duals as `like`."""
    return (
        Dual(promote(value, like.a), zeros_like(like.b)) if isinstance(like, Dual) else value + 0.0
    )


def zeros_like(x):
    return Dual(zeros_like(x.a), zeros_like(x.b)) if isinstance(x, Dual) else np.zeros_like(x)


def depth(x):
    return 1 + depth(x.a) if isinstance(x, Dual) else 0


def tangent_of(out, x):
    """The outermost tangent of a result; zero where the result has fewer levels (is constant)."""
    return out.b if depth(out) > depth(x) else zeros_like(promote(value(out), x))


def stack(columns):
    """Values of one shape along a new first axis."""
    if any(isinstance(c, Dual) for c in columns):
        columns = [c if isinstance(c, Dual) else Dual(c, c * 0.0) for c in columns]
        return Dual(stack([c.a for c in columns]), stack([c.b for c in columns]))
    return np.stack(columns)
