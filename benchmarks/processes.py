"""Starting fresh interpreters: with which environment, and what a whole process costs."""

import os
import subprocess
import tempfile
import time

from timers import failure

HERE = os.path.dirname(os.path.abspath(__file__))


def child_environment(devices, extra=()):
    """The environment of a measured process with this many host devices."""
    environment = dict(os.environ)
    environment.update(pair.split("=", 1) for pair in extra)
    flags = [
        flag
        for flag in environment.get("XLA_FLAGS", "").split()
        if "host_platform_device_count" not in flag
    ]
    if devices > 1:
        flags.append(f"--xla_force_host_platform_device_count={devices}")
    environment["XLA_FLAGS"] = " ".join(flags)
    # Both libraries on the CPU unless the caller says otherwise.
    environment.setdefault("JAX_PLATFORMS", "cpu")
    environment.setdefault("WEFT_PLATFORMS", "cpu")
    # Libraries that read a variable of their own for the number of devices count the flag instead.
    environment.pop("WEFT_NUM_CPU_DEVICES", None)
    environment["PYTHONPATH"] = os.pathsep.join(
        [HERE, *filter(None, [environment.get("PYTHONPATH")])]
    )
    environment["TF_CPP_MIN_LOG_LEVEL"] = "2"
    # What is measured is a user's interpreter, which keeps the bytecode of what it imports.
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    return environment


def with_cache(environment, folder):
    """The environment with programs kept in a folder between processes, by either library."""
    return environment | {
        "WEFT_CACHE_DIR": os.path.join(folder, "weft"),
        "JAX_COMPILATION_CACHE_DIR": os.path.join(folder, "jax"),
        # JAX keeps by default only what took a second to compile.
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "0",
    }


def spawn(python, arguments, environment, timeout):
    """(seconds, standard output, standard error, exit status) of one fresh interpreter.

    Nothing that it computes was compiled before: weft's cache of programs is on, as it is for its
    users, and empty. JAX's is off, as it is for its users.
    """
    with tempfile.TemporaryDirectory() as folder:
        environment = environment | {"WEFT_CACHE_DIR": os.path.join(folder, "weft")}
        environment.pop("JAX_COMPILATION_CACHE_DIR", None)
        return run(python, arguments, environment, timeout)


def run(python, arguments, environment, timeout):
    """As `spawn`, with whatever cache of programs the environment names."""
    start = time.perf_counter()
    process = subprocess.Popen(
        [python, *arguments],
        env=environment,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    try:
        out, err = process.communicate(timeout=timeout)
        return time.perf_counter() - start, out, err, process.returncode
    except subprocess.TimeoutExpired:
        process.kill()
        out, _ = process.communicate()
        return time.perf_counter() - start, out or "", "ran out of time", -1


AT_EXIT = (
    "import resource, sys;"
    "print('@@RSS', resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024);"
    "print('@@MODULES', len(sys.modules))"
)

FIRST = """
import time; t0 = time.perf_counter()
import {lib} as L
t1 = time.perf_counter()
L.devices()
t2 = time.perf_counter()
L.block_until_ready(L.jit(lambda x: x + 1)(1.0))
t3 = time.perf_counter()
L.block_until_ready(L.jit(lambda x: x + 2)(1.0))
t4 = time.perf_counter()
print('@@TIMES', t1 - t0, t2 - t1, t3 - t2, t4 - t3)
"""

SCRIPT = """
import time; t0 = time.perf_counter()
import {lib} as L, {lib}.numpy as jnp
L.devices()
t1 = time.perf_counter()
x = jnp.reshape(jnp.arange(12.0), (3, 4))
y = jnp.tanh(x @ jnp.ones((4, 2)))
z = (y - jnp.mean(y, axis=0)) / (1e-6 + jnp.sqrt(jnp.sum(y * y)))
m = jnp.max(jnp.where(x > 3, x, 0.0), axis=1)
k = jnp.concatenate([x, x * 2], axis=1)[:, ::2]
e = jnp.exp(x[0]) / jnp.sum(jnp.exp(x[0]))
c = jnp.maximum(jnp.cumsum(jnp.transpose(x), axis=0), jnp.expand_dims(x[0], 1))
s = jnp.stack([jnp.argmax(x, axis=0).astype(jnp.float32), jnp.einsum("ij,i->j", x, m)])
r = [float(jnp.sum(v)) for v in (z, m, k, e, c, s)]
t2 = time.perf_counter()
f = lambda w: jnp.mean(jnp.tanh(x @ w) ** 2)
g = L.grad(f)(jnp.ones((4, 2)))
r.append(float(jnp.sum(g)))
t3 = time.perf_counter()
print('@@TIMES', t1 - t0, t2 - t1, t3 - t2)
"""

WARM = """
import time; t0 = time.perf_counter()
import {lib} as L, {lib}.numpy as jnp
t1 = time.perf_counter()
import numpy as np
r = np.random.default_rng(0)
params = [
    {{"w": r.normal(0, 1 / np.sqrt({width}), ({width}, {width})).astype(np.float32),
      "b": np.zeros({width}, np.float32)}}
    for _ in range(100)
]
x, y = r.normal(size=(2, 32, {width})).astype(np.float32)
def loss(params, x, y):
    for layer in params:
        x = jnp.tanh(x @ layer["w"] + layer["b"])
    return jnp.mean((x - y) ** 2)
t2 = time.perf_counter()
L.devices()
t3 = time.perf_counter()
traced = L.jit(L.grad(loss)).trace(params, x, y)
t4 = time.perf_counter()
lowered = traced.lower()
t5 = time.perf_counter()
compiled = lowered.compile()
t6 = time.perf_counter()
L.block_until_ready(compiled(params, x, y))
t7 = time.perf_counter()
print('@@TIMES', t1 - t0, t3 - t2, t4 - t3, t5 - t4, t6 - t5, t7 - t6)
""".replace("{width}", "64")

# case -> (program, the names of the times it prints, the name of the whole process's time)
PROGRAMS = {
    "import_time": ("import {lib}, {lib}.numpy\n", (), "wall"),
    "first_result": (
        FIRST,
        ("import", "backend_start", "first_jit_call", "second_jit_function"),
        "wall_whole_process",
    ),
    "first_script": (
        SCRIPT,
        ("import", "first_25_eager_ops", "first_eager_grad"),
        "wall_whole_process",
    ),
    "warm_start": (
        WARM,
        ("import", "backend_start", "trace", "lower", "load", "first_run"),
        "wall_whole_process",
    ),
}
# Those that find their programs compiled by an earlier process.
WARM_CASES = ("warm_start",)


def measure(lib, name, python, environment, timeout):
    """The rows of one run of a case that is a whole process."""
    program, times, wall_name = PROGRAMS[name]
    bare, _, _, _ = spawn(python, ["-c", AT_EXIT], environment, timeout)
    code = program.format(lib=lib) + AT_EXIT
    if name in WARM_CASES:
        with tempfile.TemporaryDirectory() as folder:
            kept = with_cache(environment, folder)
            run(python, ["-c", code], kept, timeout)
            wall, out, err, status = run(python, ["-c", code], kept, timeout)
    else:
        wall, out, err, status = spawn(python, ["-c", code], environment, timeout)
    if status:
        return [failure("", (err.strip().splitlines() or ["died"])[-1])]
    printed = {
        line.split()[0]: [float(value) for value in line.split()[1:]]
        for line in out.splitlines()
        if line.startswith("@@")
    }
    rows = [(wall_name, wall, "s"), ("bare_interpreter", bare, "s")]
    spent = dict(zip(times, printed.get("@@TIMES", ()), strict=True))
    rows += [(n, v, "s") for n, v in spent.items()]
    if "trace" in spent:
        rows.append(("share_of_tracing", 100 * spent["trace"] / wall, "%"))
    rows += [
        ("peak_rss", printed["@@RSS"][0], "MiB"),
        ("modules", printed["@@MODULES"][0], "count"),
    ]
    return [{"metric": metric, "value": value, "unit": unit} for metric, value, unit in rows]


def versions(lib, python):
    """What is measured: `jax 0.10.2, jaxlib 0.10.2, Python 3.11.7`."""
    code = (
        "import importlib.metadata as m, platform, sys\n"
        "have = {d.metadata['Name'] for d in m.distributions()}\n"
        "names = [n for n in (sys.argv[1], 'jaxlib', 'numpy') if n in have]\n"
        "print(*(f'{n} {m.version(n)}' for n in names), 'Python ' + platform.python_version(),"
        " sep=', ', end='')"
    )
    _, out, _, _ = spawn(python, ["-c", code, lib.partition("-")[0]], dict(os.environ), 60)
    return out or f"{lib} (no such interpreter)"
