"""How low each overhead can go over jaxlib, measured without any library above it.

    python benchmarks/floors.py [section ...]

Every section does by the shortest route what a front end must do: it starts the runtime, makes
arrays, runs an executable, emits a module, records a program. The figures are lower bounds to
design against, not a design. It imports jaxlib inside functions because the import is itself
measured.
"""

import gc
import operator
import os
import subprocess
import sys

import numpy as np

from timers import MS, US, once, per_call


def show(name, value, unit):
    print(f"{name:64s} {value:10.3f} {unit}", flush=True)


# ---- the runtime, bare --------------------------------------------------------


class Aval:
    __slots__ = ("shape", "dtype", "weak_type")

    def __init__(self, shape, dtype):
        self.shape, self.dtype, self.weak_type = shape, dtype, False


_AVALS = {}


def aval_of(shape, dtype):
    """One Aval object per type, so that a cache can key on its identity."""
    k = (tuple(shape), np.dtype(dtype))
    r = _AVALS.get(k)
    if r is None:
        r = _AVALS[k] = Aval(*k)
    return r


class Runtime:
    def __init__(self):
        from jaxlib import _hlo, _jax, xla_client

        self.m = _jax
        n = 1
        for flag in os.environ.get("XLA_FLAGS", "").split():
            if "host_platform_device_count" in flag:
                n = int(flag.split("=")[1])
        self.client = xla_client.make_cpu_client(num_devices=n)
        self.devs = self.client.local_devices()
        self.dl = _jax.DeviceList(tuple(self.devs[:1]))
        dl = self.dl

        class One(_jax.SingleDeviceSharding):
            memory_kind = None
            _internal_device_list = dl

            def _to_xla_hlo_sharding(self, ndim):
                return _hlo.HloSharding.replicate()

        self.one = One(self.devs[0])

    def put(self, a):
        return self.m.batched_device_put(
            aval_of(a.shape, a.dtype), self.one, [a], [self.devs[0]], True, enable_x64=False
        )

    def compile(self, text, overrides=None, **build):
        o = self.m.CompileOptions()
        o.env_option_overrides = list((overrides or {}).items())
        for k, v in build.items():
            setattr(o.executable_build_options, k, v)
        return self.client.compile_and_load(text.encode(), self.dl, o)

    def handler(self, shape, dtype=np.float32):
        return self.m.array_result_handler(aval_of(shape, dtype), self.one, True, True)


def fn(args, outs, body, ret):
    a = ", ".join(f"%a{i}: {t}" for i, t in enumerate(args))
    o = ", ".join(outs)
    return (
        f"module @m {{ func.func public @main({a}) -> ({o}) {{\n{body}\nreturn {ret} : {o}\n}} }}"
    )


V8, S = "tensor<8xf32>", "tensor<f32>"
ADD = fn([V8, V8], [V8], f"%0 = stablehlo.add %a0, %a1 : {V8}", "%0")
ADDC = fn(
    [S], [S], f"%c = stablehlo.constant dense<1.0> : {S}\n%0 = stablehlo.add %a0, %c : {S}", "%0"
)
TANH = fn(
    [V8, V8], [V8], f"%0 = stablehlo.add %a0, %a1 : {V8}\n%1 = stablehlo.tanh %0 : {V8}", "%1"
)
DOT = fn(
    ["tensor<8x8xf32>"] * 2,
    ["tensor<8x8xf32>"],
    "%1 = stablehlo.dot_general %a0, %a1, contracting_dims = [1] x [0] : "
    "(tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>",
    "%1",
)
IDENT = fn([V8], [V8], "", "%a0")


# ---- sections -----------------------------------------------------------------


def imports():
    """Best wall time of fresh interpreters."""

    def best(code):
        return min(
            once(
                lambda: subprocess.run(
                    [sys.executable, "-c", code], check=True, stderr=subprocess.DEVNULL
                )
            )[0]
            for _ in range(7)
        )

    bare = best("pass")
    show("bare interpreter", bare * MS, "ms")
    for name, code in {
        "numpy": "import numpy",
        "numpy + jaxlib._jax": "import numpy; from jaxlib import _jax",
        "  + start the CPU client": "import numpy; from jaxlib import _jax;"
        "_jax.get_tfrt_cpu_client(asynchronous=True)",
        "  + mlir.ir": "import numpy; from jaxlib import _jax;from jaxlib.mlir import ir",
        "  + mlir.ir, stablehlo, func": "import numpy; from jaxlib import "
        "_jax; from jaxlib.mlir import ir; from jaxlib.mlir.dialects "
        "import stablehlo, func",
    }.items():
        show(name, best(code) * MS, "ms")


def compile_options():
    """Compile time of one-op programs through XLA alone, by options."""
    rt = Runtime()
    progs = {"add": ADD, "add_const": ADDC, "add_tanh": TANH, "dot": DOT, "identity": IDENT}
    sets = {
        "default": {},
        "O0": {"xla_backend_optimization_level": "0"},
        "no fusion emitters": {"xla_cpu_use_fusion_emitters": False},
        "no fusion emitters, 1 codegen split": {
            "xla_cpu_use_fusion_emitters": False,
            "xla_cpu_parallel_codegen_split_count": "1",
        },
        "no fusion emitters, 1 codegen split, O0": {
            "xla_cpu_use_fusion_emitters": False,
            "xla_cpu_parallel_codegen_split_count": "1",
            "xla_backend_optimization_level": "0",
        },
    }
    for text in progs.values():
        rt.compile(text)
    for name, ov in sets.items():
        for p, text in progs.items():
            ts = sorted(once(lambda: rt.compile(text, ov))[0] for _ in range(9))
            show(f"compile {p} [{name}]", ts[4] * MS, "ms")
    for p, text in progs.items():
        blob = rt.compile(text).serialize()
        o = rt.m.CompileOptions()
        ts = sorted(
            once(lambda: rt.client.deserialize_executable(blob, rt.dl, o))[0] for _ in range(9)
        )
        show(f"load {p} from its serialized executable ({len(blob)} bytes)", ts[4] * MS, "ms")


def dispatch():
    """Running a compiled program: the call, wrapping its results, waiting."""
    rt = Runtime()
    x = rt.put(np.ones(8, np.float32))
    for n_in, n_out in ((1, 1), (10, 1), (10, 10), (100, 1), (100, 100)):
        body = f"%c = stablehlo.constant dense<1.0> : {V8}\n" + "\n".join(
            f"%{i} = stablehlo.add %a{i}, %c : {V8}" for i in range(n_out)
        )
        text = fn([V8] * n_in, [V8] * n_out, body, ", ".join(f"%{i}" for i in range(n_out)))
        exe = rt.compile(text)
        args, hs = [x] * n_in, [rt.handler((8,))] * n_out
        run, wait = exe.execute_sharded, rt.m.batched_block_until_ready
        tag = f"execute {n_in} in, {n_out} out"
        show(tag, per_call(lambda: run(args)) * US, "us")
        show(
            tag + ", results wrapped as arrays",
            per_call(lambda: run(args).consume_with_handlers(hs)) * US,
            "us",
        )
        show(
            tag + ", wrapped and waited for",
            per_call(lambda: wait(run(args).consume_with_handlers(hs))) * US,
            "us",
        )
    a = np.ones(8, np.float32)
    show("device_put of 8 floats, one call of the runtime", per_call(lambda: rt.put(a)) * US, "us")
    big = np.ones(64 * 2**20 + 16, np.float32)
    off = (-big.ctypes.data % 64) // 4
    al, un = big[off : off + 64 * 2**20], big[off + 1 : off + 1 + 64 * 2**20 - 16]
    for name, arr in (("64-byte aligned", al), ("unaligned", un)):
        rt.put(arr)
        ts = sorted(
            once(lambda: rt.m.batched_block_until_ready([rt.put(arr)]))[0] for _ in range(5)
        )
        show(f"device_put of 256 MB, {name}", ts[2] * MS, "ms")


def dispatch8():
    """The same on 8 host devices (set XLA_FLAGS for 8 first)."""
    from jaxlib import _hlo

    rt = Runtime()
    if len(rt.devs) < 8:
        print("  set XLA_FLAGS=--xla_force_host_platform_device_count=8")
        return
    dl = rt.m.DeviceList(tuple(rt.devs[:8]))
    tile = _hlo.HloSharding.iota_tile((8,))

    class Sharding(rt.m.Sharding):
        memory_kind = None
        _internal_device_list = dl
        _device_assignment = tuple(rt.devs[:8])
        is_fully_addressable = True

        def _to_xla_hlo_sharding(self, ndim):
            return tile

        def shard_shape(self, shape):
            return (shape[0] // 8,)

    sh = Sharding()
    av = Aval((8,), np.dtype(np.float32))
    parts = [np.ones(1, np.float32)] * 8
    put = lambda: rt.m.batched_device_put(av, sh, parts, rt.devs[:8], True, enable_x64=False)
    x = put()
    o = rt.m.CompileOptions()
    o.num_partitions = 8
    b = o.executable_build_options
    b.use_spmd_partitioning, b.use_shardy_partitioner = True, False
    b.num_partitions = 8
    o.device_assignment = rt.m.DeviceAssignment.create(np.arange(8).reshape(1, 8))
    attr = '{mhlo.sharding = "{devices=[8]<=[8]}"}'
    text = (
        f"module @m attributes {{mhlo.num_partitions = 8 : i32, "
        f"mhlo.num_replicas = 1 : i32}} {{ func.func public @main("
        f"%a0: {V8} {attr}) -> ({V8} {attr}) {{\n"
        f"%0 = stablehlo.add %a0, %a0 : {V8}\nreturn %0 : {V8}\n}} }}"
    )
    exe = rt.client.compile_and_load(text.encode(), dl, o)
    h = [rt.m.array_result_handler(av, sh, True, True)]
    run, wait = exe.execute_sharded, rt.m.batched_block_until_ready
    args = [x]
    show(
        "8 devices: execute 1 in, 1 out, wrapped",
        per_call(lambda: run(args).consume_with_handlers(h)) * US,
        "us",
    )
    show(
        "8 devices: the same, waited for",
        per_call(lambda: wait(run(args).consume_with_handlers(h))) * US,
        "us",
    )
    show("8 devices: device_put of 8 pieces", per_call(put) * US, "us")


CHAIN_N = 5000


def lowering():
    """A chain of 5,000 sine / multiply / add as a module, by three routes."""
    from jaxlib.mlir import ir
    from jaxlib.mlir._mlir_libs import _jax_mlir_ext
    from jaxlib.mlir.dialects import func, stablehlo

    def context():
        reg = ir.DialectRegistry()
        _jax_mlir_ext.register_dialects(reg)
        ctx = ir.Context()
        ctx.append_dialect_registry(reg)
        ctx.load_all_available_dialects()
        stablehlo.register_dialect(ctx)
        ctx.enable_multithreading(False)
        return ctx

    show("make an MLIR context", min(once(context)[0] for _ in range(7)) * MS, "ms")
    n = CHAIN_N
    ctx = context()

    def by_classes():
        with ctx, ir.Location.unknown():
            m = ir.Module.create()
            t = ir.RankedTensorType.get((8,), ir.F32Type.get())
            with ir.InsertionPoint(m.body):
                f = func.FuncOp("main", ir.FunctionType.get([t] * 3, [t]))
                b = f.add_entry_block()
                with ir.InsertionPoint(b):
                    x, a, c = b.arguments
                    for i in range(n):
                        k = i % 3
                        if k == 0:
                            x = stablehlo.SineOp(x).result
                        elif k == 1:
                            x = stablehlo.MulOp(x, a).result
                        else:
                            x = stablehlo.AddOp(x, c).result
                    func.ReturnOp([x])
        return m

    def by_generic():
        with ctx, ir.Location.unknown() as loc:
            m = ir.Module.create()
            t = ir.RankedTensorType.get((8,), ir.F32Type.get())
            with ir.InsertionPoint(m.body):
                f = func.FuncOp("main", ir.FunctionType.get([t] * 3, [t]))
                b = f.add_entry_block()
                with ir.InsertionPoint(b) as ip:
                    x, a, c = b.arguments
                    make, ts = ir.Operation.create, [t]
                    for i in range(n):
                        k = i % 3
                        if k == 0:
                            o = make("stablehlo.sine", ts, [x], loc=loc, ip=ip)
                        elif k == 1:
                            o = make("stablehlo.multiply", ts, [x, a], loc=loc, ip=ip)
                        else:
                            o = make("stablehlo.add", ts, [x, c], loc=loc, ip=ip)
                        x = o.result
                    func.ReturnOp([x])
        return m

    def text():
        v, lines = "%a0", []
        for i in range(n):
            k = i % 3
            if k == 0:
                lines.append(f"%{i} = stablehlo.sine {v} : {V8}")
            elif k == 1:
                lines.append(f"%{i} = stablehlo.multiply {v}, %a1 : {V8}")
            else:
                lines.append(f"%{i} = stablehlo.add {v}, %a2 : {V8}")
            v = f"%{i}"
        return fn([V8] * 3, [V8], "\n".join(lines), v)

    def best(f, k=5):
        gc.collect()
        return min(once(f)[0] for _ in range(k))

    s = text()
    per = US / n
    show("bindings, dialect classes", best(by_classes) * per, "us/op")
    show("bindings, Operation.create", best(by_generic) * per, "us/op")
    show("text from Python", best(text) * per, "us/op")
    show("text parsed by MLIR", best(lambda: ir.Module.parse(s, ctx)) * per, "us/op")
    m = ir.Module.parse(s, ctx)
    show("printing the module", best(lambda: str(m)) * per, "us/op")


# ---- a minimal recorder -------------------------------------------------------
# What tracing must do at the least: make a tracer per result, look the result
# type up, append an equation, and know the user's line.


class Var:
    __slots__ = ("aval",)

    def __init__(self, aval):
        self.aval = aval


class Eqn:
    __slots__ = ("prim", "ins", "outs", "params", "src")

    def __init__(self, prim, ins, outs, params, src):
        self.prim, self.ins, self.outs = prim, ins, outs
        self.params, self.src = params, src


class Tracer:
    __slots__ = ("trace", "var")

    def __init__(self, trace, var):
        self.trace, self.var = trace, var


class Prim:
    __slots__ = ("name", "memo")

    def __init__(self, name):
        self.name, self.memo = name, {}

    def rule(self, avals, params):
        return avals[0]


NO_PARAMS = ()


class Record:
    __slots__ = ("eqns", "traceback")

    def __init__(self, traceback):
        self.eqns, self.traceback = [], traceback

    def bind(self, prim, args, params):
        ins, key = [], []
        for a in args:
            if type(a) is not Tracer or a.trace is not self:
                raise TypeError("a constant or another trace's value")
            ins.append(a.var)
            key.append(a.var.aval)
        key = (params, *key)
        out = prim.memo.get(key)
        if out is None:
            out = prim.memo[key] = prim.rule(key[1:], params)
        v = Var(out)
        src = self.traceback() if self.traceback else None
        self.eqns.append(Eqn(prim, ins, [v], params, src))
        return Tracer(self, v)


SIN, MUL, ADDP = Prim("sin"), Prim("mul"), Prim("add")


def bind(prim, *args):
    for a in args:
        if type(a) is Tracer:
            return a.trace.bind(prim, args, NO_PARAMS)
    raise NotImplementedError


def sin(x):
    return bind(SIN, x)


def mul(x, y):
    return bind(MUL, x, y)


def add(x, y):
    return bind(ADDP, x, y)


def tracing():
    """Recording the 5,000-op chain; then its backward pass over the record."""
    from jaxlib import _jax

    n = CHAIN_N
    av = Aval((8,), np.dtype(np.float32))

    def chain(x, a, b):
        for i in range(n):
            k = i % 3
            if k == 0:
                x = sin(x)
            elif k == 1:
                x = mul(x, a)
            else:
                x = add(x, b)
        return x

    def record(tb):
        t = Record(tb)
        ins = [Tracer(t, Var(av)) for _ in range(3)]
        chain(*ins)
        return t

    def best(f, k=7):
        gc.collect()
        return min(once(f)[0] for _ in range(k))

    per = US / n
    tb = _jax.Traceback.get_traceback
    frame = sys._getframe
    show("pure Python recorder, no source line", best(lambda: record(None)) * per, "us/eqn")
    show(
        "  + frame code and line number",
        best(lambda: record(lambda: (lambda f: (f.f_code, f.f_lasti))(frame(3)))) * per,
        "us/eqn",
    )
    show("  + jaxlib traceback object", best(lambda: record(tb)) * per, "us/eqn")

    def backward(t):
        """Reverse over a record of sin/mul/add, emitting cotangent equations
        through the same recorder (cos of the input is taken as a residual)."""
        bw = Record(tb)
        env = {}
        ct = {id(t.eqns[-1].outs[0]): Tracer(bw, Var(av))}

        def read(v):
            r = env.get(id(v))
            if r is None:
                r = env[id(v)] = Tracer(bw, v)
            return r

        def acc(v, g):
            old = ct.get(id(v))
            ct[id(v)] = g if old is None else bind(ADDP, old, g)

        for e in reversed(t.eqns):
            g = ct.pop(id(e.outs[0]), None)
            if g is None:
                continue
            if e.prim is SIN:
                acc(e.ins[0], bind(MUL, g, read(e.ins[0])))
            elif e.prim is MUL:
                acc(e.ins[0], bind(MUL, g, read(e.ins[1])))
                acc(e.ins[1], bind(MUL, g, read(e.ins[0])))
            else:
                acc(e.ins[0], g)
                acc(e.ins[1], g)
        return bw

    t = record(tb)
    k = len(backward(t).eqns)
    show(
        f"reverse pass over the record, {k} equations out",
        best(lambda: backward(t)) * US / k,
        "us/eqn out",
    )
    show(
        "record + reverse, per equation of the forward program",
        best(lambda: backward(record(tb))) * per,
        "us/eqn in",
    )


def eager():
    """One eager op: find the executable by the operands' types, run, wrap."""
    rt = Runtime()
    exe = rt.compile(ADD)
    x = rt.put(np.ones(8, np.float32))
    h = [rt.handler((8,))]
    cache = {}
    run = exe.execute_sharded
    aval = x.aval
    cache[(ADDP, aval, aval)] = (run, h)

    def op(a, b):
        r, hs = cache[(ADDP, a.aval, b.aval)]
        return r((a, b)).consume_with_handlers(hs)[0]

    show("eager add, pure Python key and cache", per_call(lambda: op(x, x)) * US, "us")

    def op_typed(a, b):
        key = (ADDP, type(a), a.aval, type(b), b.aval)
        if operator.is_(type(a), Tracer):
            raise TypeError
        r, hs = cache2[key]
        return r((a, b)).consume_with_handlers(hs)[0]

    cache2 = {(ADDP, type(x), aval, type(x), aval): (run, h)}
    show("eager add, tracer checks added", per_call(lambda: op_typed(x, x)) * US, "us")
    chain = 32

    def ops32():
        y = x
        for _ in range(chain):
            y = op(y, x)
        return y

    show(
        "32 dependent eager adds (an MLP's eager grad has about 32 ops)", per_call(ops32) * MS, "ms"
    )


SECTIONS = dict(
    imports=imports,
    compile_options=compile_options,
    dispatch=dispatch,
    dispatch8=dispatch8,
    lowering=lowering,
    tracing=tracing,
    eager=eager,
)

if __name__ == "__main__":
    for name in sys.argv[1:] or SECTIONS:
        if name == "dispatch8" and "host_platform_device_count" not in os.environ.get(
            "XLA_FLAGS", ""
        ):
            env = dict(
                os.environ,
                XLA_FLAGS=os.environ.get("XLA_FLAGS", "")
                + " --xla_force_host_platform_device_count=8",
            )
            sys.stdout.flush()
            subprocess.run([sys.executable, __file__, name], env=env)
            continue
        print(f"== {name}: {SECTIONS[name].__doc__.splitlines()[0]}", flush=True)
        SECTIONS[name]()
