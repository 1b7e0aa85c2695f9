"""`jax.core`, `jax.extend`, `jax.interpreters` and what libraries import of `jax._src`."""

from __future__ import annotations

import collections
import functools
import importlib
import pickle

import numpy as np
import pytest

import weft
import weft.as_jax
from closeness import equal
from weft import lax
from weft.errors import MissingRuleError, WeftNotImplementedError

MODULES = """
jax.api_util jax.core jax.extend.backend jax.extend.core jax.extend.core.primitives
jax.extend.ifrt_programs jax.extend.linear_util jax.extend.lowering jax.extend.mlir
jax.extend.mlir.dialects.stablehlo jax.extend.mlir.ir jax.extend.random jax.extend.sharding
jax.extend.source_info_util jax.extend.xla jax.interpreters.ad jax.interpreters.batching
jax.interpreters.mlir jax.interpreters.partial_eval jax.interpreters.pxla jax.interpreters.xla
jax._src.ad_util jax._src.compiler jax._src.core jax._src.dispatch jax._src.distributed
jax._src.dtypes jax._src.literals jax._src.numpy.util jax._src.pretty_printer
jax._src.source_info_util jax._src.traceback_util jax._src.tree_util jax._src.util
jax._src.xla_bridge
""".split()


@pytest.fixture(params=MODULES)
def module(request):
    return importlib.import_module(request.param)


def jax_module(name):
    return importlib.import_module(f"jax.{name}")


def test_every_name_that_a_module_shows_is_there(module):
    names = [name for name in dir(module) if not name.startswith("_")]
    assert names
    for name in names:
        getattr(module, name)


def test_names_that_libraries_import():
    core, extend = jax_module("core"), jax_module("extend.core")
    for name in "Tracer ShapedArray Atom AbstractValue Trace ParamDict eval_jaxpr".split():
        assert hasattr(core, name)
    for name in (
        "Primitive Jaxpr ClosedJaxpr JaxprEqn Literal Var DropVar Effect TraceTag find_top_trace "
        "mapped_aval unmapped_aval take_current_trace set_current_trace concrete_or_error "
        "get_opaque_trace_state valid_jaxtype jaxpr_as_fun jaxprs_in_params subjaxprs gensym "
        "new_jaxpr_eqn check_jaxpr array_types no_effects primal_dtype_to_tangent_dtype"
    ).split():
        assert hasattr(extend, name), name
    assert core.Tracer is weft.extend.core.Tracer and core.ShapedArray is type(weft.typeof(1.0))
    assert extend.Literal is weft.extend.core.Literal


# ---- interpreters of jaxprs, as users write them -----------------------------------------------


def evaluated(jaxpr, consts, *args):
    """The interpreter that every tutorial begins with."""
    extend = jax_module("extend.core")
    env = {}

    def read(var):
        return var.val if type(var) is extend.Literal else env[var]

    env.update(zip(jaxpr.constvars, consts, strict=True))
    env.update(zip(jaxpr.invars, args, strict=True))
    for eqn in jaxpr.eqns:
        values = [read(var) for var in eqn.invars]
        if eqn.primitive is extend.primitives.jit_p:
            inner = eqn.params["jaxpr"]
            outs = evaluated(inner.jaxpr, inner.consts, *values)
        else:
            outs = eqn.primitive.bind(*values, **eqn.primitive.get_bind_params(eqn.params))
        if not eqn.primitive.multiple_results:
            outs = [outs]
        env.update(zip(eqn.outvars, outs, strict=True))
    return [read(var) for var in jaxpr.outvars]


def example(x):
    table = weft.numpy.asarray(np.array([1.0, 2.0, 3.0], "float32"))
    inner = weft.jit(lambda y: weft.numpy.sin(y) * table)
    return lax.fori_loop(0, 3, lambda i, c: c + inner(c), x) * 2.0, 1.0


def test_an_interpreter_of_jaxprs():
    x = np.array([0.5, 1.0, -1.0], "float32")
    closed = weft.make_jaxpr(example)(x)
    assert len(closed.jaxpr.constvars) == len(closed.consts) == len(closed.literals)
    assert [v.aval for v in closed.jaxpr.invars] == closed.in_avals
    found, _ = evaluated(closed.jaxpr, closed.consts, x)
    np.testing.assert_allclose(found, example(x)[0], rtol=1e-6)
    again = weft.grad(lambda x: evaluated(closed.jaxpr, closed.consts, x)[0].sum())(x)
    np.testing.assert_allclose(again, weft.grad(lambda x: example(x)[0].sum())(x), rtol=1e-5)
    core = jax_module("core")
    np.testing.assert_allclose(
        core.eval_jaxpr(closed.jaxpr, closed.consts, x, propagate_source_info=False)[0],
        found, rtol=1e-6,
    )  # fmt: skip


def test_programs_are_changed_and_made():
    extend = jax_module("extend.core")
    closed = weft.make_jaxpr(lambda x: (lax.sin(x), lax.cos(x)))(1.0)
    jaxpr = closed.jaxpr
    eqn = jaxpr.eqns[0].replace(primitive=extend.primitives.tanh_p)
    changed = jaxpr.replace(eqns=[eqn, *jaxpr.eqns[1:]], debug_info=jaxpr.debug_info)
    outs = extend.jaxpr_as_fun(extend.ClosedJaxpr(changed, closed.consts))(1.0)
    np.testing.assert_allclose(outs, [np.tanh(1.0), np.cos(1.0)], rtol=1e-6)
    x, y = extend.Var(weft.typeof(1.0)), extend.Var(weft.typeof(1.0))
    eqn = extend.new_jaxpr_eqn([x], [y], extend.primitives.exp_p, {}, extend.no_effects)
    made = extend.Jaxpr([], [x], [y], [eqn], effects=frozenset(), debug_info=jaxpr.debug_info)
    assert isinstance(made, extend.Jaxpr) and isinstance(jaxpr, extend.Jaxpr)
    extend.check_jaxpr(made)
    np.testing.assert_allclose(extend.jaxpr_as_fun(made)(1.0), [np.e], rtol=1e-6)
    assert list(extend.subjaxprs(made)) == [] and made.pretty_print() == str(made)
    assert closed.map_jaxpr(lambda j: made).jaxpr is made and not made.is_high
    assert closed.replace(jaxpr=made).consts == closed.consts


def test_a_loop_takes_closed_programs():
    extend = jax_module("extend.core")
    scale = weft.numpy.asarray([2.0, 3.0])
    closed = weft.make_jaxpr(lambda c, x: (c * scale.sum() + x, c))(1.0, 1.0)
    outs = extend.primitives.scan_p.bind(
        1.0, weft.numpy.ones(3), jaxpr=closed, length=3, reverse=False, unroll=1, num_consts=0,
        num_carry=1,
    )  # fmt: skip
    np.testing.assert_allclose(outs[0], 156.0)
    branches = tuple(weft.make_jaxpr(f)(1.0) for f in (lax.sin, lambda x: x * scale[0]))
    np.testing.assert_allclose(extend.primitives.cond_p.bind(1, 4.0, branches=branches), [8.0])


# ---- objects that count as weft's --------------------------------------------------------------


def test_classes_of_which_weft_has_instances():
    extend, core = jax_module("extend.core"), jax_module("core")
    assert isinstance(extend.primitives.sin_p, extend.Primitive)
    assert isinstance(extend.primitives.add_jaxvals_p, weft.extend.core.Primitive)
    assert isinstance(weft.extend.core.current_trace(), core.Trace)
    assert isinstance(weft.extend.core.IO, extend.Effect)

    class Mine(extend.Effect):
        pass

    assert isinstance(Mine(), extend.Effect) and not isinstance(weft.extend.core.IO, Mine)
    call_p = extend.CallPrimitive("call_for_test")
    assert call_p.multiple_results and call_p.call_primitive
    assert core.max_dim(2, 3) == 3 and core.min_dim(2, 3) == 2


def test_apply_primitive_compiles_what_the_lowering_says():
    core, xla, mlir = (jax_module(n) for n in ("core", "interpreters.xla", "interpreters.mlir"))
    calls = []

    def counted(primitive, *args, **params):
        calls.append(args)
        return xla.apply_primitive(primitive, *args, **params)

    for impl in (xla.apply_primitive, counted):
        primitive = jax_module("extend.core").Primitive("one_more_for_test")
        primitive.def_abstract_eval(lambda x, *, by: core.ShapedArray(x.shape, x.dtype))
        mlir.register_lowering(
            primitive, mlir.lower_fun(lambda x, *, by: x + by, multiple_results=False)
        )
        primitive.def_impl(functools.partial(impl, primitive))
        for _ in range(2):
            assert primitive.bind(np.float32(2.0), by=1) == 3
    assert len(calls) == 2
    with pytest.raises(weft.errors.LeakedTracerError):
        weft.jit(lambda x: xla.apply_primitive(primitive, x, by=1))(1.0)


def test_primitives_by_the_names_of_jax():
    primitives = jax_module("extend.core.primitives")
    assert primitives.remat_p.name == "checkpoint" and primitives.select_n_p.name == "select_n"
    assert primitives.squeeze_p is primitives.squeeze_p
    with pytest.raises(MissingRuleError):
        weft.make_jaxpr(primitives.stage_p.bind)(1.0)
    with pytest.raises(AttributeError):
        primitives.xla_pmap_p  # noqa: B018


def test_types_have_the_attributes_of_jax():
    of = weft.typeof(np.ones((2, 3), "float32"))
    assert of.str_short() == "float32[2,3]" and of.str_short(short_dtypes=True) == "f32[2,3]"
    assert of.vma == frozenset() and of.strip_weak_type() is of and of.update(shape=()).ndim == 0
    ints = weft.typeof(np.int32(1))
    assert ints.to_tangent_aval().dtype == weft.float0
    x = weft.numpy.ones(2)
    assert x.aval is weft.typeof(x)
    assert weft.jit(lambda y: y * (y.aval.shape[0]))(x).tolist() == [2.0, 2.0]


# ---- the smaller modules -----------------------------------------------------------------------


def test_random_generators_and_ciphers():
    """Numbers are those of `jax.extend.random.threefry_2x32` of JAX 0.10.2."""
    random = jax_module("extend.random")
    words = random.threefry_2x32(np.array([1, 2], "uint32"), np.arange(5, dtype="uint32"))
    assert words.tolist() == [2052595727, 3504730591, 2527474599, 1880214352, 1914734168]
    parts = dict(
        key_shape=(1,),
        seed=lambda s: s.astype("uint32").reshape(1),
        split=lambda k, shape: weft.numpy.broadcast_to(k + np.uint32(7), (*shape, 1)),
        random_bits=lambda k, w, shape: weft.numpy.broadcast_to(k, shape).astype(f"uint{w}"),
        fold_in=lambda k, data: k + data,
        name="of_extend_test",
        tag="oet",
    )
    first, second = random.define_prng_impl(**parts), random.define_prng_impl(**parts)
    assert first is not second
    key = weft.random.key(3, impl=first)
    assert weft.random.bits(key, (2,)).tolist() == [3, 3]
    assert weft.random.key_data(random.seed_with_impl(second, 4)).tolist() == [4]
    keys = random.random_seed(np.arange(2), random.threefry_prng_impl)
    assert weft.random.key_data(keys).tolist() == [[0, 0], [0, 1]]


def test_shardings_of_xla_as_messages():
    sharding = jax_module("extend.sharding")
    own = weft.extend.sharding.XlaSharding.parse("{devices=[2,1]<=[2]}")
    message = own.serialize() if hasattr(own, "serialize") else None
    found = sharding.get_hlo_sharding_from_serialized_proto(
        message or weft.runtime.op_sharding.proto(weft.runtime.op_sharding.parse("{replicated}"))
    )
    again = sharding.get_serialized_proto_from_hlo_sharding(found)
    assert sharding.get_hlo_sharding_from_serialized_proto(again) == found
    assert sharding.get_op_sharding_from_serialized_proto(again).SerializeToString() == again
    with pytest.raises(WeftNotImplementedError):
        sharding.GSPMDSharding((), found)


def test_modules_as_artifacts():
    mlir, own = jax_module("extend.mlir"), jax_module("interpreters.mlir")
    closed = weft.make_jaxpr(lambda x: weft.numpy.sin(x) * 2.0)(1.0)
    lowered = own.lower_jaxpr_to_module("jit_f", closed, platforms=("cpu",))
    text = own.module_to_string(lowered.module)
    assert "stablehlo.sine" in text and own.module_to_bytecode(lowered.module)
    again = mlir.deserialize_portable_artifact(mlir.serialize_portable_artifact(text))
    assert "sine" in own.module_to_string(again)
    stablehlo = jax_module("extend.mlir.dialects.stablehlo")
    assert stablehlo.AddOp is weft.extend.interpreters.mlir.hlo.AddOp
    assert own.lowerable_effects.contains(weft.extend.core.IO)


def test_names_and_lines_of_equations():
    info = jax_module("extend.source_info_util")

    def f(x):
        with weft.named_scope("layer"), info.extend_name_stack("dense"):
            return lax.sin(x)

    (eqn,) = weft.make_jaxpr(f)(1.0).eqns
    assert str(eqn.source_info.name_stack) == "layer/dense"
    assert "test_extend_names.py" in info.summarize(eqn.source_info)
    with info.user_context(eqn.source_info.traceback, name_stack=info.new_name_stack("a")):
        again = info.current()
    assert info.summarize(again) == info.summarize(eqn.source_info)
    assert str(again.name_stack) == "a" and len(again.name_stack) == 1
    with weft.named_scope("outer"), info.reset_name_stack():
        assert str(info.current_name_stack()) == ""
    assert info.summarize(info.new_source_info()) == "unknown"
    stack = info.new_name_stack("x").extend("y") + info.new_name_stack("z")
    assert str(stack[1:]) == "y/z" and info.current().replace(name_stack=stack).name_stack is stack


def test_backends():
    backend = jax_module("extend.backend")
    assert backend.get_backend("cpu").platform == "cpu" and "cpu" in backend.backends()
    assert backend.get_default_device() == weft.devices()[0]
    assert backend.backend_xla_version() is None
    with pytest.raises(WeftNotImplementedError):
        backend.register_backend_factory("mine", lambda: None)


def test_operands_of_primitives_stand_in_the_order_of_jax():
    """Rules that libraries set for JAX's primitives take operands by position."""
    primitives = jax_module("extend.core.primitives")
    flag, x, y = np.array([True, False]), np.arange(2.0), np.ones(2)
    found = weft.make_jaxpr(lambda p, a, b: weft.numpy.where(p, a, b))(flag, x, y)
    (eqn,) = found.eqns
    assert eqn.primitive is primitives.select_n_p
    assert [found.jaxpr.invars.index(v) for v in eqn.invars] == [0, 2, 1]
    assert primitives.select_n_p.bind(flag, x, y).tolist() == [1.0, 1.0]


Point = collections.namedtuple("Point", "x y")


@pytest.mark.parametrize(
    "value",
    [
        (1, [2]), [1, (2, 3)], [], {"b": 1, "a": [2]}, {}, None, Point(1, {"z": 2}),
        collections.OrderedDict(b=1, a=2), collections.defaultdict(int, b=1, a=2),
        weft.tree.Partial(max, 1, key=2),
    ],
    ids=lambda value: type(value).__name__,
)  # fmt: skip
def test_registered_classes_are_taken_apart_and_put_together(value):
    node = jax_module("_src.tree_util")._registry[type(value)]
    children, data = node.to_iter(value)
    if isinstance(value, (list, tuple)):
        assert list(children) == list(value)
    elif isinstance(value, dict):
        assert set(map(str, children)) == set(map(str, value.values()))
    assert isinstance(hash(data), int)
    again = node.from_iter(data, iter(children))
    assert type(again) is type(value) and weft.tree.structure(again) == weft.tree.structure(value)
    assert weft.tree.leaves(again) == weft.tree.leaves(value)


def test_private_names():
    util, tree_util = jax_module("_src.util"), jax_module("_src.tree_util")
    assert util.split_list([1, 2, 3], [1]) == [[1], [2, 3]]
    assert util.partition_list([True, False], "ab") == (["b"], ["a"])
    assert util.merge_lists([True, False], ["b"], ["a"]) == ["a", "b"]
    assert util.unzip2([(1, 2), (3, 4)]) == ((1, 3), (2, 4)) and util.prod([2, 3]) == 6
    assert util.subs_list([0, None], "x", "y") == ["x", "y"]
    assert util.curry(max)(1)(2) == 2 and util.tuple_insert((1, 3), 1, 2) == (1, 2, 3)
    assert dict in tree_util._registry and int not in tree_util._registry
    assert not jax_module("_src.distributed").global_state.client
    assert jax_module("_src.random").Shape is jax_module("_src.typing").Shape
    read = jax_module("_src.sharding_impls").canonicalize_sharding
    assert read(None, "map") is read(weft.typeof(weft.numpy.ones(2)).sharding, "map") is None
    mesh, spec = weft.make_mesh((8,), ("i",)), weft.sharding.PartitionSpec("i")
    over = weft.sharding.NamedSharding(mesh.abstract_mesh, spec)
    assert read(weft.sharding.NamedSharding(mesh, spec), "map") is over
    with weft.set_mesh(mesh):
        assert read(spec, "map") is over
    with pytest.raises(weft.errors.NoMeshError):
        read(spec, "map")
    with pytest.raises(TypeError, match="no sharding"):
        read("i", "map")
    promoted = jax_module("_src.numpy.util").promote_dtypes_complex(1, np.float32(2))
    assert [x.dtype for x in promoted] == [np.complex64] * 2
    printer = jax_module("_src.pretty_printer")
    assert printer.concat([printer.text("a"), printer.brk(), printer.text("b")]).format() == "a b"
    traceback_util = jax_module("_src.traceback_util")

    @traceback_util.api_boundary
    def fails():
        raise ValueError("inside")

    with pytest.raises(ValueError, match="inside"):
        fails()
    xla = jax_module("interpreters.xla")
    assert float(xla.apply_primitive(weft.extend.core.primitives["neg"], 2.0)) == -2.0
    assert jax_module("interpreters.pxla").thread_resources.env.physical_mesh.empty


def test_the_first_case_of_select_n_is_that_of_false():
    pick = jax_module("lax").select_n_p.bind
    pred = np.array([True, False])
    np.testing.assert_array_equal(pick(pred, np.zeros(2), np.ones(2)), [1, 0])
    cases = [np.full(3, i) for i in range(5)]
    np.testing.assert_array_equal(pick(np.array([-1, 3, 9], np.int32), *cases), [0, 3, 4])


def test_attributes_and_functions_that_checkpoints_and_named_arrays_read() -> None:
    sharding = weft.numpy.ones(3).sharding
    assert sharding._addressable_device_assignment == sharding._device_assignment
    assert list(sharding._device_assignment) == weft.devices()[:1]
    for split in (lambda x: x._split([1], 1), weft.jit(lambda x: x._split(np.array([1]), 1))):
        assert [part.shape for part in split(weft.numpy.ones((2, 3)))] == [(2, 1), (2, 2)]
    tree_util, mesh = jax_module("_src.tree_util"), jax_module("_src.mesh")
    assert tree_util.flatten_one_level({"b": 1, "a": 2}) == ((2, 1), ("a", "b"))
    with pytest.raises(ValueError, match="leaf"):
        tree_util.flatten_one_level(1)
    assert mesh.get_concrete_mesh().empty
    made = weft.sharding.Mesh(weft.devices()[:1], "i")
    with made:
        assert mesh.get_concrete_mesh() is made
    core = jax_module("core")
    assert core.is_constant_shape((1, np.int64(2)))
    assert not core.is_constant_dim(weft.export.symbolic_shape("n")[0])
    (n,) = weft.devices()[:1]
    colocated = jax_module("experimental.colocated_python.serialization")
    assert list(colocated.DeviceList((n,))) == [n]


def test_contractions_in_the_order_of_opt_einsum() -> None:
    steps = [((1, 0), frozenset("2"), "23,12->13"), ((1, 0), frozenset("13"), "13,13->1")]
    x, y, z = np.ones((4, 5)), np.arange(30.0).reshape(5, 6), np.arange(24.0).reshape(4, 6)
    first, second = steps
    found = jax_module("_src.numpy.einsum")._einsum([x, y], [first], None, None)
    np.testing.assert_allclose(found, x @ y, rtol=1e-6)
    found = jax_module("_src.numpy.einsum")._einsum([z, x @ y], [second], None, None)
    np.testing.assert_allclose(found, (z * (x @ y)).sum(1), rtol=1e-6)


def test_primitives_that_other_primitives_do():
    lax, primitives = jax_module("lax"), jax_module("extend.core.primitives")
    jnp, random = jax_module("numpy"), jax_module("random")
    x, keys = np.arange(6.0, dtype=np.float32).reshape(1, 6), random.split(random.key(0), 3)

    equal(lax.squeeze_p.bind(x, dimensions=(0,)), x[0])
    equal(lax.copy_p.bind(x), x)
    equal(lax.tile_p.bind(x, reps=(2, 1)), np.tile(x, (2, 1)))
    equal(lax.device_put_p.bind(x, devices=(None,), srcs=(None,), copy_semantics=(None,))[0], x)
    values, places = lax.approx_top_k_p.bind(
        x, k=2, reduction_dimension=1, recall_target=0.95, is_max_k=True,
        reduction_input_size_override=-1, aggregate_to_topk=True,
    )  # fmt: skip
    equal(values, [[5, 4]]), equal(places, [[5, 4]])
    bits = primitives.random_bits_p.bind(keys, bit_width=16, shape=(2,))
    equal(bits, [random.bits(key, (2,), "uint16") for key in keys])
    folded = primitives.random_fold_in_p.bind(keys, jnp.uint32(5))
    equal(random.key_data(folded), [random.key_data(random.fold_in(key, 5)) for key in keys])
    split = primitives.random_split_p.bind(keys, shape=(2,))
    equal(random.key_data(split), [random.key_data(random.split(key, 2)) for key in keys])
    # They are functions like others: they can be traced, mapped and differentiated.
    squeezed = weft.vmap(weft.grad(lambda x: lax.squeeze_p.bind(x, dimensions=(0,))[1]))(x[:, None])
    equal(squeezed, [[[0, 1, 0, 0, 0, 0]]])
    assert "squeeze" not in str(weft.make_jaxpr(lambda x: lax.tile_p.bind(x, reps=(1, 2)))(x))


def test_the_class_of_compiled_functions_has_the_name_that_libraries_look_for():
    kind = type(weft.jit(lambda x: x))
    assert "PjitFunction" in str(kind) and pickle.loads(pickle.dumps(kind)) is kind


def test_settings_are_objects_in_the_private_module():
    config = jax_module("_src.config")
    assert config.numpy_rank_promotion.value == "allow"
    with config.numpy_rank_promotion("warn"):
        assert (
            config.numpy_rank_promotion.value == weft.config.read("numpy_rank_promotion") == "warn"
        )
    with config.disable_jit():
        assert config.disable_jit.value
    with pytest.raises(AttributeError):
        config.no_setting_of_this_name  # noqa: B018


def test_tables_of_legendre_functions():
    special, scipy_special = jax_module("scipy.special"), pytest.importorskip("scipy.special")
    z = np.linspace(-0.9, 0.9, 5, dtype=np.float32)
    values, slopes = special.lpmn(3, 3, z)
    normalized = special.lpmn_values(3, 3, z, True)
    for m in range(4):
        for n in range(4):
            want = scipy_special.assoc_legendre_p(n, m, z.astype(float), diff_n=1)
            np.testing.assert_allclose(values[m, n], want[0], atol=1e-5)
            np.testing.assert_allclose(slopes[m, n], want[1], rtol=1e-5, atol=1e-4)
            if m <= n:
                harmonic = scipy_special.sph_harm_y(n, m, np.arccos(z.astype(float)), 0.0).real
                np.testing.assert_allclose(normalized[m, n], harmonic, atol=1e-5)
    with pytest.raises(NotImplementedError):
        special.lpmn(2, 3, z)
