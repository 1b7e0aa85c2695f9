"""hijax: what flax.nnx declares can be declared, and runs where nothing is traced."""

from __future__ import annotations

from typing import Generic, TypeVar

import numpy as np
import pytest

import weft
from weft.errors import WeftNotImplementedError, WeftTypeError
from weft.experimental import cur_qdd, hijax

A = TypeVar("A")


class Box:
    def __init__(self, value):
        self.value = value

    def cur_qdd(self):
        return type(self.value)


class BoxType(Generic[A], hijax.MutableHiType):
    __slots__ = ["has_qdd"]

    get = hijax.aval_method(lambda box: box.value)
    first = hijax.aval_property(fget=lambda box: box.value[0])

    def __init__(self, has_qdd):
        object.__setattr__(self, "has_qdd", has_qdd)


class SetBox(hijax.HiPrimitive):
    multiple_results = True

    def impl(self, box, value):
        box.value = value
        return []


class GetBox(hijax.HiPrimitive):
    def impl(self, box, *, by):
        return box.value * by


set_box_p, get_box_p = SetBox("set_box"), GetBox("get_box")
hijax.register_hitype(Box, lambda box: BoxType(True))


def test_primitives_run_on_values_of_any_class():
    box = Box(3.0)
    assert get_box_p.bind(box, by=2) == 6.0
    assert set_box_p.bind(box, np.ones(2)) == []
    assert set_box_p.multiple_results and not get_box_p.multiple_results
    assert cur_qdd(box) is np.ndarray
    assert isinstance(BoxType(True), hijax.AbstractValue)
    assert isinstance(weft.typeof(1.0), hijax.AbstractValue)
    assert BoxType.first.fget(box) == 1.0 and BoxType.get.fun(box) is box.value


def test_what_is_traced_is_an_array():
    box = Box(3.0)
    with pytest.raises(WeftNotImplementedError, match="'get_box' under jit"):
        weft.jit(lambda x: get_box_p.bind(box, by=x))(1.0)
    with pytest.raises(WeftNotImplementedError, match="lo_ty is not defined"):
        BoxType(False).lo_ty()
    with pytest.raises(WeftNotImplementedError, match="cur_qdd of a float"):
        cur_qdd(1.0)
    with pytest.raises(WeftNotImplementedError, match="does not define impl"):
        hijax.HiPrimitive("empty").bind(1.0)
    with pytest.raises(WeftNotImplementedError, match="VJPHiPrimitive"):
        hijax.VJPHiPrimitive()(1.0)
    with pytest.raises(WeftTypeError, match="takes a class and a function"):
        hijax.register_hitype(3, 4)


def test_types_say_what_is_known():
    class Known:
        def to_tangent_qdd(self):
            return "tangent"

    class Whole(hijax.HiType):
        def to_tangent_aval(self):
            return "tangents"

    both = hijax.AvalQDD(Whole(), Known()).to_tangent_aval()
    assert (both.aval, both.qdd) == ("tangents", "tangent")
    assert Whole().to_ct_aval() == "tangents"
    effects = hijax.control_flow_allowed_effects
    effects.add_type(Known)
    assert effects.contains(Known()) and not effects.contains(3)
