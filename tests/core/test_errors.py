"""The error classes, their texts, and what is trimmed from tracebacks."""

from __future__ import annotations

import ast
import os
import pickle
import subprocess
import sys
import textwrap
import traceback

import pytest

from source_files import PACKAGE, nodes, parse, python_files
from weft import config, errors
from weft.base import source
from weft.errors import Fix, ShapeError, TreeError, WeftError, api_boundary, argument_errors, trim

pytestmark = pytest.mark.fast


def here():
    return sys._getframe(1).f_lineno


def files_of(error):
    return [frame.filename for frame in traceback.extract_tb(error.__traceback__)]


# ---- text and fields -------------------------------------------------------------------


def test_the_text_has_all_fields_in_order():
    error = ShapeError(
        "the shapes do not fit",
        operation="dot",
        got="f32[2,3]",
        wanted="f32[4,3]",
        where="model.py:3 in loss",
        fix=Fix("transpose", "transpose the second operand", {"axes": (1, 0)}),
    )
    assert str(error).splitlines() == [
        "the shapes do not fit",
        "  operation: dot",
        "  got: f32[2,3]",
        "  wanted: f32[4,3]",
        "  at model.py:3 in loss",
        "  Fix: transpose the second operand",
    ]
    assert error.fix.data == {"axes": (1, 0)}
    assert (error.operation, error.got, error.wanted) == ("dot", "f32[2,3]", "f32[4,3]")


def test_the_line_of_the_user_is_found():
    error, line = WeftError("no"), here()
    assert error.location.endswith(f"test_errors.py:{line} in test_the_line_of_the_user_is_found")
    assert f"at {error.location}" in str(error)


def test_a_recorded_line_stands_for_the_current_one():
    recorded, line = source.current(), here()
    with source.override(recorded):
        error = WeftError("no")
    assert f":{line} in" in error.location


def test_values_that_are_false_are_shown():
    text = str(WeftError("no", got=0, wanted=(), where="x"))
    assert "got: 0" in text and "wanted: ()" in text


def test_long_values_are_indented():
    assert "  got: a\n    b\n" in str(WeftError("no", got="a\nb"))


@pytest.mark.parametrize(
    ("name", "bases"),
    [
        ("WeftTypeError", (TypeError,)),
        ("ShapeError", (TypeError, ValueError)),
        ("DTypeError", (TypeError,)),
        ("WeftValueError", (ValueError,)),
        ("AxisError", (ValueError, IndexError)),
        ("WeftIndexError", (IndexError,)),
        ("TreeError", (TypeError, ValueError)),
        ("ConcretizationError", (TypeError,)),
        ("TracerBoolConversionError", (errors.ConcretizationError,)),
        ("TracerIntegerConversionError", (errors.ConcretizationError,)),
        ("TracerArrayConversionError", (errors.ConcretizationError,)),
        ("NonConcreteBooleanIndexError", (IndexError,)),
        ("LeakedTracerError", (TypeError,)),
        ("DeletedArrayError", (RuntimeError,)),
        ("MissingRuleError", (NotImplementedError,)),
        ("WeftNotImplementedError", (NotImplementedError,)),
        ("JaxprError", (TypeError,)),
    ],
)
def test_errors_are_what_users_catch(name, bases):
    cls = getattr(errors, name)
    assert issubclass(cls, WeftError)
    for base in bases:
        with pytest.raises(base, match="message"):
            raise cls("message")


def test_errors_can_be_pickled():
    error = TreeError("no", operation="map", got=1, fix=Fix("keys", "use str", {"path": ("a",)}))
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is TreeError and str(copy) == str(error) and copy.fix == error.fix


def test_a_fix_is_frozen():
    with pytest.raises(AttributeError):
        Fix("a", "b").text = "c"


# ---- trimming --------------------------------------------------------------------------

INTERNAL = str(PACKAGE / "pretend.py")


def internal_function(text):
    """A function `f` whose frames count as weft's own."""
    namespace = {"errors": errors}
    exec(compile(textwrap.dedent(text), INTERNAL, "exec"), namespace)
    return namespace["f"]


call_it = internal_function("def f(g, *args):\n    return g(*args)\n")
fails_on_purpose = internal_function("def f():\n    raise errors.ShapeError('no')\n")
fails_by_mistake = internal_function("def f():\n    return {}['x']\n")
chains = internal_function(
    """
    def f(g):
        try:
            g()
        except ZeroDivisionError as error:
            raise errors.WeftValueError("no") from error
    """
)


def user_function():
    return 1 // 0


def test_frames_of_weft_are_removed():
    with pytest.raises(ZeroDivisionError) as caught:
        call_it(call_it, user_function)
    assert files_of(caught.value) == [__file__, INTERNAL, INTERNAL, __file__]
    assert trim(caught.value) is caught.value
    assert files_of(caught.value) == [__file__, __file__]


def test_the_setting_keeps_all_frames():
    with pytest.raises(ZeroDivisionError) as caught:
        call_it(user_function)
    with config.override(full_traceback=True):
        trim(caught.value)
    assert INTERNAL in files_of(caught.value)


def test_causes_are_trimmed_too():
    with pytest.raises(errors.WeftValueError) as caught:
        chains(lambda: call_it(user_function))
    trim(caught.value)
    assert INTERNAL not in files_of(caught.value)
    cause = caught.value.__cause__
    assert isinstance(cause, ZeroDivisionError) and cause.__traceback__ is not None
    assert INTERNAL not in files_of(cause)


def test_groups_are_trimmed_too():
    with pytest.raises(ZeroDivisionError) as caught:
        call_it(user_function)
    group = ExceptionGroup("several", [caught.value])
    trim(group)
    assert INTERNAL not in files_of(caught.value)


def test_a_chain_that_closes_on_itself_ends():
    first, second = ValueError("a"), ValueError("b")
    first.__cause__, second.__cause__ = second, first
    assert trim(first) is first


def test_an_error_on_purpose_ends_at_the_user():
    with pytest.raises(ShapeError) as caught:
        call_it(fails_on_purpose)
    trim(caught.value)
    assert files_of(caught.value) == [__file__]


def test_a_mistake_inside_keeps_its_place():
    with pytest.raises(KeyError) as caught:
        call_it(call_it, fails_by_mistake)
    trim(caught.value)
    assert files_of(caught.value) == [__file__, INTERNAL]


def test_the_boundary_shows_no_frame():
    outer = api_boundary(call_it)
    inner = api_boundary(call_it)
    with pytest.raises(ZeroDivisionError) as caught:
        outer(inner, user_function)
    assert files_of(caught.value) == [__file__, __file__]


def test_the_boundary_passes_everything_through():
    def f(x: int, *, y: int = 2) -> int:
        """Adds."""
        return x + y

    wrapped = api_boundary(f)
    assert wrapped(1) == 3 and wrapped(1, y=5) == 6
    assert (wrapped.__name__, wrapped.__doc__, wrapped.__wrapped__) == ("f", "Adds.", f)


def raising(operation=""):
    return internal_function(f"def f(*_):\n    raise errors.ShapeError('no', {operation})\n")


@pytest.mark.parametrize(
    "function, operation",
    [
        (api_boundary(raising()), "f"),
        (api_boundary("debug.print")(raising()), "debug.print"),
        (api_boundary("outer")(api_boundary(raising())), "f"),
        (api_boundary(raising("operation='len()'")), "len()"),
        (api_boundary(raising("operation=None")), None),
        (api_boundary(call_it), None),
    ],
)
def test_the_boundary_names_the_error(function, operation):
    def refuse():
        raise ShapeError("no")

    with pytest.raises(ShapeError) as caught:
        function(refuse)
    assert caught.value.operation == operation


def test_a_message_that_begins_with_a_verb_is_read_on_from_the_name():
    refuse = internal_function("def f(*_):\n    raise errors.ShapeError('takes matrices')\n")
    with pytest.raises(ShapeError) as caught:
        api_boundary("linalg.qr")(refuse)()
    assert str(caught.value).startswith("linalg.qr takes matrices\n")
    assert caught.value.operation == "linalg.qr" and "operation:" not in str(caught.value)


def test_the_boundary_names_a_method_with_its_class():
    make = internal_function(
        """
        def f():
            class C:
                @errors.api_boundary
                def __init__(self, fails):
                    if fails:
                        raise errors.ShapeError("no")

                @errors.api_boundary
                def method(self):
                    raise errors.ShapeError("no")
            return C
        """
    )
    for function, name in ((lambda: make()(True), "C"), (lambda: make()(False).method(), "method")):
        with pytest.raises(ShapeError) as caught:
            function()
        assert caught.value.operation.endswith(name)


@pytest.mark.parametrize("full", ["0", "1"])
def test_the_hook_trims_what_is_printed(full, tmp_path):
    script = tmp_path / "program.py"
    script.write_text(
        textwrap.dedent(
            f"""
            import sys
            from weft import errors
            printed = []
            before = sys.excepthook
            def other_hook(kind, error, tb):
                print("the hook from before was called", file=sys.stderr)
                before(kind, error, tb)
            sys.excepthook = other_hook
            errors.install_excepthook()
            installed = sys.excepthook
            errors.install_excepthook()
            assert sys.excepthook is installed
            namespace = {{"errors": errors}}
            code = "def f(g):\\n    return g()\\n"
            exec(compile(code, {INTERNAL!r}, "exec"), namespace)
            def user():
                raise errors.ShapeError("the shapes do not fit")
            namespace["f"](user)
            """
        )
    )
    ran = subprocess.run(
        [sys.executable, "-W", "error", str(script)],
        capture_output=True,
        text=True,
        env={"PYTHONPATH": ":".join(sys.path), "WEFT_FULL_TRACEBACK": full},
        check=False,
    )
    assert ran.returncode == 1 and "the hook from before was called" in ran.stderr
    assert "ShapeError: the shapes do not fit" in ran.stderr and "in user" in ran.stderr
    assert ("pretend.py" in ran.stderr) == (full == "1")


def test_an_uncaught_error_of_an_operator_shows_the_users_lines_alone(tmp_path):
    script = tmp_path / "script.py"
    script.write_text("import weft.numpy as jnp\n\njnp.ones(3) + jnp.ones(4)\n")
    environment = {k: v for k, v in os.environ.items() if k != "WEFT_FULL_TRACEBACK"}
    environment["PYTHONPATH"] = str(PACKAGE.parent)

    def shown(**changes):
        return subprocess.run(
            [sys.executable, str(script)],
            env=environment | changes,
            capture_output=True,
            text=True,
            timeout=120,
        ).stderr

    text = shown()
    assert text.count('File "') == 1 and "script.py" in text and "ShapeError" in text
    assert shown(WEFT_FULL_TRACEBACK="1").count('File "') > 1


# Files that raise plain exceptions: what Python's protocols ask for, what is caught where it is
# called, methods that a subclass defines, and settings, on which the classes of errors are built.
PLAIN = {
    "custom_batching.py", "debug/printing.py", "settings/jax_settings.py",
    "settings/kinds.py", "base/source.py",
    "spmd/block_tracers.py",
    "custom_derivatives/custom_function.py", "custom_derivatives/custom_primitive.py",
    "custom_derivatives/pullback.py", "custom_derivatives/custom_vjp_rules.py",
    "core/array_value.py",
    "core/jaxpr.py", "core/shape_struct.py", "core/trace.py", "distributed/messages.py",
    "export/container.py", "export/serialized_sizes.py",
    "analysis/picture_forms.py",
    "experimental/checkify/failures.py", "experimental/sparse/base.py", "refs/reference.py",
    "refs/views.py",
    "numpy/getitem.py", "runtime/stablehlo/portable_artifact.py",
    "runtime/backends/op_sharding.py", "sharding/layout.py", "sharding/mesh.py", "tree/nodes.py",
}  # fmt: skip


def test_what_is_refused_is_refused_in_an_error_with_fields():
    builtin = {"NotImplementedError", "TypeError", "ValueError", "IndexError"}
    raised = set()
    for path in python_files("weft"):
        for node in nodes(parse(path)):
            if isinstance(node, ast.Raise) and node.exc is not None:
                name = getattr(node.exc, "func", node.exc)
                if getattr(name, "id", None) in builtin:
                    raised.add(str(path.relative_to(PACKAGE)))
    assert raised == PLAIN


def test_an_error_of_an_argument_states_it_and_what_to_pass():
    error = argument_errors.unknown_option("f", "mode", "fulll", "'full'", use="full")
    assert isinstance(error, errors.WeftValueError)
    assert error.message == "f: there is no mode 'fulll'"
    assert (error.operation, error.got, error.wanted) == ("f", "mode='fulll'", "'full'")
    assert error.fix == Fix("mode", "pass mode='full'", {"mode": "full"})
    none = argument_errors.invalid_value("f: n is odd", "f", "n", 3, use=None)
    assert none.fix == Fix("n", "pass n=None", {"n": None})
    assert argument_errors.negative_value("f", "n", -1).fix is None
    long = argument_errors.invalid_type("f: x is a number", "f", "x", "y" * 200)
    assert len(long.got) == len("x=") + 80
    assert "of class str" in argument_errors.invalid_class("f", "f", "x", "y").got


@pytest.mark.parametrize(
    ("name", "close"), [("fulll", "full"), ("zzzz", None), (3, None), (None, None)]
)
def test_a_close_name_is_one_of_those_known(name, close):
    assert argument_errors.close_name(name, ("full", "same")) == close
