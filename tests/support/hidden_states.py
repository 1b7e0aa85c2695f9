"""Kinds of state that a traced function may read, hidden and visible, and functions that read it.

A state is three texts: `setup` runs once in a namespace of its own, `write` sets the state to the
number `k`, and `read` is an expression whose value depends on it. `maker` makes functions, each
made anew, that read it in one of many ways.
"""

from __future__ import annotations

import itertools
import sys
import textwrap
import types
from typing import Any, NamedTuple

__all__ = ["FORMS", "STATES", "State", "maker", "namespace"]


_numbers = itertools.count()


class State(NamedTuple):
    """One kind of state; see the module."""

    setup: str
    write: str
    read: str


def _file(read: str, setup: str = "", write: str = "path.write_text(str(k))") -> State:
    return State(f"import pathlib\npath = folder / 'state.txt'\n{setup}", write, read)


def _module(name: str, write: str, read: str, setup: str = "") -> State:
    return State(f"import {name}\n{setup}", write, read)


def _object(setup: str, write: str, read: str) -> State:
    return State(setup, write, read)


# What is written of several states.
_TOUCHED = "path.write_text('') if k % 2 else path.unlink(missing_ok=True)"
_LONGER = "path.write_text('a' * (k + 1))"
_MADE = "m = types.ModuleType('weft_hidden'); m.k = k; sys.modules['weft_hidden'] = m"
_MOVED = "d = folder / ('c' * (k + 1)); d.mkdir(exist_ok=True); os.chdir(d)"
_PRECISE = "decimal.getcontext().prec = k + 3"

_FILES = {
    "Path.read_text": _file("float(path.read_text())"),
    "Path.read_bytes": _file("float(path.read_bytes())"),
    "Path.stat": _file("path.stat().st_size", write=_LONGER),
    "Path.exists": _file("path.exists()", write=_TOUCHED),
    "Path.is_file": _file("path.is_file()", write=_TOUCHED),
    "Path.glob": _file("len(list(folder.glob('*.g')))",
        write="[p.unlink() for p in folder.glob('*.g')]\n"
        "[(folder / f'{i}.g').write_text('') for i in range(k)]"),
    "Path.iterdir": _file("len(list((folder / 'd').iterdir()))",
        "(folder / 'd').mkdir(exist_ok=True)",
        "[p.unlink() for p in (folder / 'd').iterdir()]\n"
        "[(folder / 'd' / str(i)).write_text('') for i in range(k)]"),
    "Path.resolve": _file("len(str((folder / 'link').resolve()))",
        write="(folder / 'link').unlink(missing_ok=True)\n"
        "(folder / 'link').symlink_to(folder / ('a' * (k + 1)))"),
    "Path.cwd": _file("len(str(pathlib.Path.cwd()))", "import os", _MOVED),
    "Path.home": _file("len(str(pathlib.Path.home()))", "import os",
        "os.environ['HOME'] = '/' + 'h' * (k + 1)"),
    "open": _file("float(open(path).read())"),
    "io.open": _file("float(io.open(path).read())", "import io"),
    "os.stat": _file("os.stat(path).st_size", "import os", _LONGER),
    "os.path.getsize": _file("os.path.getsize(path)", "import os", _LONGER),
    "os.path.exists": _file("os.path.exists(path)", "import os", _TOUCHED),
    "glob.glob": _file("len(glob.glob(str(folder / '*.h')))", "import glob",
        "[p.unlink() for p in folder.glob('*.h')]\n"
        "[(folder / f'{i}.h').write_text('') for i in range(k)]"),
    "configparser": _file("float(parser.get('a', 'k'))",
        "import configparser\nparser = configparser.ConfigParser()\nparser.add_section('a')",
        "parser.set('a', 'k', str(k))"),
    "fileinput": _file("float(next(fileinput.FileInput(str(path))))", "import fileinput"),
    "linecache": _file("float(linecache.getline(str(path), 1))", "import linecache",
        "path.write_text(str(k)); linecache.clearcache()"),
    "numpy.loadtxt": _file("float(np.loadtxt(path))", "import numpy as np"),
    "numpy.load": _file("float(np.load(folder / 'a.npy'))", "import numpy as np",
        "np.save(folder / 'a.npy', np.float32(k))"),
    "numpy.fromfile": _file("float(np.fromfile(path, np.float32)[0])", "import numpy as np",
        "np.float32([k]).tofile(path)"),
    "numpy.memmap": _file("float(mapped[0])",
        "import numpy as np\nnp.float32([0]).tofile(path)\n"
        "mapped = np.memmap(path, np.float32, 'r')", "np.memmap(path, np.float32, 'r+')[0] = k"),
    "weft.numpy.load": _file("jnp.load(folder / 'b.npy')", "import numpy as np, weft.numpy as jnp",
        "np.save(folder / 'b.npy', np.float32(k))"),
    "weft.numpy.fromfile": _file("jnp.fromfile(path, 'float32')[0]",
        "import numpy as np, weft.numpy as jnp", "np.float32([k]).tofile(path)"),
    "json.load": _file("float(json.load(open(path)))", "import json"),
    "StringIO": _object("import io\nbox = io.StringIO()", "box.seek(0); box.write(str(k))",
                        "float(box.getvalue())"),
    "a file's position": _file("handle.tell()", "path.write_text('a' * 99); handle = open(path)",
                               "handle.seek(k)"),
}  # fmt: skip
_MODULES = {
    "environ": _module("os", "os.environ['WEFT_K'] = str(k)", "float(os.environ['WEFT_K'])"),
    "getenv": _module("os", "os.environ['WEFT_K'] = str(k)", "float(os.getenv('WEFT_K'))"),
    "getcwd": _module("os", _MOVED, "len(os.getcwd())"),
    "recursion limit": _module("sys", "sys.setrecursionlimit(3000 + k)", "sys.getrecursionlimit()"),
    "switch interval": _module("sys", "sys.setswitchinterval(0.001 * (k + 1))",
        "sys.getswitchinterval()"),
    "digits of integers": _module("sys", "sys.set_int_max_str_digits(5000 + k)",
        "sys.get_int_max_str_digits()"),
    "argv": _module("sys", "sys.argv[1:] = ['a'] * k", "len(sys.argv)"),
    "sys.path": _module("sys", "sys.path[1:] = [*before, *['a'] * k]", "len(sys.path)",
                        "before = sys.path[1:]"),
    "sys.modules": _module("sys, types", _MADE, "sys.modules['weft_hidden'].k"),
    "import_module": _module("sys, types, importlib", _MADE,
        "importlib.import_module('weft_hidden').k"),
    "__import__": _module("sys, types", _MADE, "__import__('weft_hidden').k"),
    "gc.callbacks": _module("gc", "gc.callbacks[:] = [*before, *[print_nothing] * k]",
        "len(gc.callbacks)", "before = list(gc.callbacks)\ndef print_nothing(*_): pass"),
    "gc.get_threshold": _module("gc", "gc.set_threshold(700 + k, 10, 10)", "gc.get_threshold()[0]"),
    "decimal's precision": _module("decimal", _PRECISE, "decimal.getcontext().prec"),
    "a quotient of decimals": _module("decimal", _PRECISE, "len(str(decimal.Decimal(1) / 3))"),
    "a decimal": _module("decimal", _PRECISE, "len(str(one / 3))", "one = decimal.Decimal(1)"),
    "locale": _module("calendar", "calendar.setfirstweekday(k % 7)", "calendar.firstweekday()"),
    "socket": _module("socket", "socket.setdefaulttimeout(k + 1)", "socket.getdefaulttimeout()"),
    "tempdir": _module("tempfile", "tempfile.tempdir = '/' + 'a' * (k + 1)",
        "len(tempfile.gettempdir())"),
    "warnings": _module("warnings",
        "warnings.filters[:] = before + [('ignore', None, Warning, None, 0)] * k",
        "len(warnings.filters)", "before = list(warnings.filters)"),
    "logging": _module("logging", "logging.getLogger('hidden').setLevel(k + 1)",
        "logging.getLogger('hidden').level"),
    "a logger": _module("logging", "log.setLevel(10 * (k + 1))", "log.isEnabledFor(25)",
        "log = logging.getLogger('hidden')"),
    "a thread's name": _module("threading", "threading.current_thread().name = 'a' * (k + 1)",
        "len(threading.current_thread().name)"),
    "thread-local": _module("threading", "local.k = k", "local.k", "local = threading.local()"),
    "a lock": _module("threading",
        "lock.acquire(blocking=False) if k % 2 else lock.locked() and lock.release()",
        "lock.locked()", "lock = threading.Lock()"),
    "an event": _module("threading", "event.set() if k % 2 else event.clear()", "event.is_set()",
        "event = threading.Event()"),
    "a queue": _module("queue", "box.queue.clear(); [box.put(1) for _ in range(k)]", "box.qsize()",
        "box = queue.Queue()"),
    "random": _module("random", "random.seed(k)", "random.random()"),
    "numpy.random": _module("numpy as np", "np.random.seed(k)", "float(np.random.rand())"),
    "numpy.geterr": _module("numpy as np", "np.seterr(divide='ignore' if k % 2 else 'warn')",
        "len(np.geterr()['divide'])"),
    "numpy.seterr": _module("numpy as np", "np.seterr(over='ignore' if k % 2 else 'raise')",
        "grows()",
        "def grows():\n    try: return float(np.isinf(np.float32(3e38) * np.float32(10)))\n"
        "    except FloatingPointError: return 2.0"),
    "numpy.get_printoptions": _module("numpy as np", "np.set_printoptions(precision=k)",
        "np.get_printoptions()['precision']"),
    "the text of an array": _module("numpy as np", "np.set_printoptions(precision=k + 1)",
        "len(f'{third}')", "third = np.ones(2) / 3"),
    "the text of an array of weft's": _module("numpy as np, weft.numpy as jnp",
        "np.set_printoptions(precision=k + 1)", "len(str(third))", "third = jnp.ones(2) / 3"),
    "codecs": _module("copyreg",
        "copyreg.dispatch_table.pop(C, None); k % 2 and copyreg.pickle(C, id)",
        "C in copyreg.dispatch_table", "class C: pass"),
    "weak references": _module("weakref",
        "alive[:] = [C() for _ in range(k)]; box.clear(); box.update(alive)", "len(box)",
        "class C: pass\nalive = []\nbox = weakref.WeakSet()"),
    "subclasses": _module("gc", "made += [type('S', (C,), {}) for _ in range(k - len(made))]",
        "len(C.__subclasses__())", "class C: pass\nmade = []"),
    "registered subclasses": _module("abc", "k % 2 and A.register(C)", "issubclass(C, A)",
        "class A(abc.ABC): pass\nclass C: pass"),
    "lru_cache": _module("functools",
        "cached.cache_clear(); number[0] = k; cached(); number[0] = -1", "cached()",
        "number = [0]\n@functools.lru_cache\ndef cached(): return number[0]"),
    "cache_info": _module("functools", "cached.cache_clear(); [cached(i) for i in range(k)]",
        "cached.cache_info().currsize", "@functools.lru_cache\ndef cached(i): return i"),
    "singledispatch": _module("functools", "one.register(C)(lambda x, k=k: k)", "one(C())",
        "class C: pass\n@functools.singledispatch\ndef one(x): return -1"),
    "ctypes": _module("ctypes", "box.value = k", "box.value", "box = ctypes.c_int(0)"),
    "array.array": _module("array", "box[0] = k", "box[0]", "box = array.array('d', [0])"),
    "namespace of argparse": _module("argparse", "box.k = k", "box.k",
        "box = argparse.Namespace(k=0)"),
    "os.fspath of an object": _module("os", "C.k = k", "len(os.fspath(C()))",
        "class C:\n    k = 0\n    def __fspath__(self): return 'a' * (self.k + 1)"),
    "the frame": _module("sys", "depth = k", "sys._getframe().f_globals['depth']", "depth = 0"),
    "inspect": _module("inspect", "depth = k", "inspect.currentframe().f_globals['depth']",
                       "depth = 0"),
    "operator.attrgetter": _module("operator", "C.k = k", "operator.attrgetter('k')(C)",
        "class C: k = 0"),
    "a context variable": _module("contextvars", "box.set(k)", "box.get()",
        "box = contextvars.ContextVar('box', default=0)"),
    "id": _module("gc", "box = [k]", "box[0] + 0 * id(box)", "box = [0]"),
}  # fmt: skip
_VISIBLE = {
    "a global": ("k0 = 0", "k0 = k", "k0"),
    "a list": ("box = [0]", "box[0] = k", "box[0]"),
    "a dict's order": ("box = {}", "box.clear(); box.update({k % 2: 0, 1 - k % 2: 0})",
                       "next(iter(box))"),
    "a set's order": ("box = set()", "box.clear(); [box.add(8 * (i ^ k % 2)) for i in (0, 1)]",
                      "next(iter(box)) + len(box)"),
    "a class's attribute": ("class C: k = 0", "C.k = k", "C().k"),
    "a base's attribute": ("class B: k = 0\nclass C(B): pass", "B.k = k", "C.k"),
    "a metaclass's attribute": ("class M(type): k = 0\nclass C(metaclass=M): pass", "M.k = k",
                                "C.k"),
    "an object": ("class C: pass\nbox = C()", "box.k = k", "box.k"),
    "slots": ("class C: __slots__ = ('k',)\nbox = C()", "box.k = k", "box.k"),
    "a property": ("k0 = 0\nclass C:\n    @property\n    def k(self): return k0\nbox = C()",
                   "k0 = k", "box.k"),
    "__getattr__": ("k0 = 0\nclass C:\n    def __getattr__(self, name): return k0\nbox = C()",
                    "k0 = k", "box.anything"),
    "a function's attribute": ("def f(): return f.k", "f.k = k", "f()"),
    "a default": ("def f(k=[0]): return k[0]", "f.__defaults__[0][0] = k", "f()"),
    "a replaced function": ("def f(): return 0", "f = lambda k=k: k", "f()"),
    "a replaced method": ("class C:\n    def f(self): return 0", "C.f = lambda self, k=k: k",
                          "C().f()"),
    "a module's attribute": ("import types\nm = types.ModuleType('m')", "m.k = k", "m.k"),
    "a module's __getattr__": (
        "import types\nm = types.ModuleType('m')\nheld = [0]\nm.__getattr__ = lambda n: held[0]",
        "held[0] = k", "m.anything"),
    "an enum's value": ("import enum\nclass E(enum.Enum): A = 1", "E.A._value_ = k", "E.A.value"),
    "an enum member's attribute": ("import enum\nclass E(enum.Enum): A = 1", "E.A.k = k", "E.A.k"),
    "an enum's method": ("import enum\nclass E(enum.Enum):\n    A = 1\n    def f(self): return 0",
        "E.f = lambda self, k=k: k", "E.A.f()"),
    "a global that an enum reads": (
        "import enum\nk0 = 0\nclass E(enum.Enum):\n    A = 1\n    def f(self): return k0", "k0 = k",
        "E.A.f()"),
    "a dataclass": ("import dataclasses\n@dataclasses.dataclass\nclass D: k: int = 0\nbox = D()",
                    "box.k = k", "box.k"),
    "a frozen dataclass's list": (
        "import dataclasses\n@dataclasses.dataclass(frozen=True)\nclass D: k: object\nbox = D([0])",
        "box.k[0] = k", "box.k[0]"),
    "a named tuple's list": ("import typing\nclass T(typing.NamedTuple): k: object\nbox = T([0])",
                             "box.k[0] = k", "box.k[0]"),
    "an array": ("import numpy as np\nbox = np.zeros(2)", "box[0] = k", "float(box[0])"),
    "a large array": ("import numpy as np\nbox = np.zeros(20000)", "box[9] = k", "float(box[9])"),
    "an array of objects": ("import numpy as np\nbox = np.array([None])", "box[0] = k", "box[0]"),
    "a masked array": ("import numpy as np\nbox = np.ma.masked_array([1., 2.], [0, 0])",
                       "box.mask = [0, k % 2]", "float(box.sum())"),
    "a view": ("import numpy as np\nbase = np.zeros(4)\nbox = base[::2]", "base[2] = k",
               "float(box[1])"),
    "an array of weft's": ("import weft.numpy as jnp\nbox = [jnp.zeros(())]",
                           "box[0] = jnp.float32(k)", "box[0]"),
    "a partial": ("import functools\nbox = functools.partial(lambda b: b[0], [0])",
                  "box.args[0][0] = k", "box()"),
    "a counter": ("import collections\nbox = collections.Counter()", "box['a'] = k", "box['a']"),
    "a deque": ("import collections\nbox = collections.deque()",
                "box.clear(); box.append(k)", "box[0]"),
    "a ChainMap": ("import collections\nbox = collections.ChainMap({})", "box['a'] = k",
                   "box['a']"),
    "a UserDict": ("import collections\nbox = collections.UserDict()", "box['a'] = k", "box['a']"),
    "a defaultdict": ("import collections\nk0 = [0]\nbox = collections.defaultdict(lambda: k0[0])",
                      "k0[0] = k; box.clear()", "box['a']"),
    "a proxy": ("import types\nd = {'a': 0}\nbox = types.MappingProxyType(d)", "d['a'] = k",
                "box['a']"),
    "a bytearray": ("box = bytearray(1)", "box[0] = k", "box[0]"),
    "a memoryview": ("b = bytearray(1)\nbox = memoryview(b)", "b[0] = k", "box[0]"),
    "an iterator": ("box = [iter([0])]", "box[0] = iter([k, k])", "next(box[0])"),
    "a generator": ("def g(k):\n    while True: yield k\nbox = g(0)", "box = g(k)", "next(box)"),
    "globals()": ("k0 = 0", "k0 = k", "globals()['k0']"),
    "eval": ("k0 = 0", "k0 = k", "eval('k0')"),
    "vars": ("class C: pass\nbox = C()", "box.k = k", "vars(box)['k']"),
    "__dict__": ("class C: pass\nbox = C()", "box.k = k", "box.__dict__['k']"),
    "__globals__": ("k0 = 0\ndef f(): pass", "k0 = k", "f.__globals__['k0']"),
    "a name of __globals__": ("k0 = 0\ndef f(): pass", "k0 = k",
                              "getattr(f, '__' + 'globals' + '__', f.__globals__)['k0']"),
    "a cell": ("def outer():\n    n = 0\n    def write(k):\n        nonlocal n\n        n = k\n"
               "    return write, lambda: n\nwrite, f = outer()", "write(k)", "f()"),
    "a wrapped function": (
        "import functools\nk0 = 0\ndef d(f):\n    @functools.wraps(f)\n"
        "    def g(): return f() + k0\n    return g\n@d\ndef f(): return 1", "k0 = k", "f()"),
    "a context manager": (
        "import contextlib\nk0 = [0]\n@contextlib.contextmanager\ndef c(): yield k0[0]\n"
        "def f():\n    with c() as k: return k", "k0[0] = k", "f()"),
    "a cached property": (
        "import functools\nk0 = 0\nclass C:\n    @functools.cached_property\n"
        "    def k(self): return k0", "k0 = k", "C().k"),
    "a class method": ("class C:\n    k = 0\n    @classmethod\n    def f(cls): return cls.k",
                       "C.k = k", "C.f()"),
    "a descriptor": (
        "class D:\n    k = 0\n    def __get__(self, o, c): return D.k\nclass C: k = D()", "D.k = k",
        "C().k"),
    "__call__": ("class C:\n    def __call__(self): return self.k\nf = C()", "f.k = k", "f()"),
    "an exception": ("k0 = 0\ndef f():\n    try: raise ValueError(k0)\n    except ValueError as e: "
                     "return e.args[0]", "k0 = k", "f()"),
    "text": ("box = ''", "box = 'a' * k", "len(f'{box}')"),
    "a fraction": ("import fractions\nbox = 0", "box = fractions.Fraction(k, 7)", "float(box)"),
}  # fmt: skip

# Every hook of Python's data model by which an object takes part in an expression. Each body
# answers with `k`, the state; `o` and `p` are two objects of the class.
_HOOKS = {
    "__float__": "float(o)", "__int__": "int(o)", "__index__": "range(9)[o]", "__len__": "len(o)",
    "__complex__": "complex(o).real", "__bool__": "bool(o)", "__call__": "o()",
    "__hash__": "hash(o)", "__eq__": "o == p", "__ne__": "o != p", "__lt__": "o < p",
    "__le__": "o <= p", "__gt__": "o > p", "__ge__": "o >= p", "__add__": "o + 1",
    "__radd__": "1 + o", "__sub__": "o - 1", "__rsub__": "1 - o", "__mul__": "o * 2",
    "__rmul__": "2 * o", "__truediv__": "o / 2", "__rtruediv__": "2 / o", "__floordiv__": "o // 2",
    "__mod__": "o % 2", "__divmod__": "divmod(o, 2)", "__pow__": "o ** 2", "__rpow__": "2 ** o",
    "__matmul__": "o @ p", "__lshift__": "o << 1", "__rshift__": "o >> 1", "__and__": "o & 1",
    "__or__": "o | 1", "__xor__": "o ^ 1", "__neg__": "-o", "__pos__": "+o", "__abs__": "abs(o)",
    "__invert__": "~o", "__round__": "round(o)", "__trunc__": "math.trunc(o)",
    "__floor__": "math.floor(o)", "__ceil__": "math.ceil(o)", "__getitem__": "o['a']",
    "__contains__": "1 in o", "__getattr__": "o.missing", "__getattribute__": "o.anything",
    "__enter__": "entered(o)", "__length_hint__": "operator.length_hint(o)",
    "__sizeof__": "o.__sizeof__()", "__missing__": "o['missing']",
    "__instancecheck__": "isinstance(1, o)", "__subclasscheck__": "issubclass(int, o)",
    "__class_getitem__": "type(o)['a']", "__copy__": "copy.copy(o)",
    "__deepcopy__": "copy.deepcopy(o)",
}  # fmt: skip
_TEXT_HOOKS = {
    "__str__": "str(o)", "__repr__": "repr(o)", "__format__": "f'{o}'", "__bytes__": "bytes(o)",
    "__fspath__": "os.fspath(o)", "__dir__": "dir(o)", "__iter__": "list(o)",
    "__reversed__": "list(reversed(o))", "__reduce__": "o.__reduce__()",
}  # fmt: skip
_CLASSES = {"__bool__": "bool", "__float__": "float", "__complex__": "complex"}
_LONG = {"__bytes__": "b'a' * box[0]", "__iter__": "iter('a' * box[0])",
         "__reversed__": "iter('a' * box[0])", "__dir__": "['a'] * box[0]"}  # fmt: skip


def _hook(name: str, read: str, answer: str) -> State:
    base = "dict" if name == "__missing__" else "object"
    setup = (
        "import copy, math, operator, os\nbox = [0]\n"
        f"class C({base}):\n    def {name}(self, *a): return {answer}\n"
        "    def __exit__(self, *a): pass\n"
        "def entered(o):\n    with o as found: return found\n"
        "o, p = C(), C()"
    )
    return State(setup, "box[0] = k", read)


_DATA_MODEL = {
    f"the hook {name}": _hook(name, read, f"{_CLASSES.get(name, '')}(box[0])")
    for name, read in _HOOKS.items()
} | {
    f"the hook {name}": _hook(name, f"len({read})", _LONG.get(name, "'a' * box[0]"))
    for name, read in _TEXT_HOOKS.items()
}

# What strangers found, each of a family that nobody here had thought of.
_STRANGERS = {
    "a default factory": (
        "import dataclasses\nbox = [0]\n@dataclasses.dataclass\nclass C:\n"
        "    k: int = dataclasses.field(default_factory=lambda: box[0])", "box[0] = k", "C().k"),
    "metadata of a field": (
        "import dataclasses\nd = {'k': 0}\n@dataclasses.dataclass\nclass C:\n"
        "    k: int = dataclasses.field(default=0, metadata=d)", "d['k'] = k",
        "dataclasses.fields(C)[0].metadata['k']"),
    "a docstring": ("def f(): pass", "f.__doc__ = 'a' * k", "len(f.__doc__ or '')"),
    "annotations": ("def f(): pass", "f.__annotations__['a'] = k", "f.__annotations__['a']"),
    "a slot": ("class C: __slots__ = ('k',)\no = C()", "o.k = k", "o.k"),
    "a dict that counts misses": (
        "class D(dict):\n    n = 0\n    def __missing__(self, key): return self.n\nd = D()",
        "d.n = k", "d['a']"),
    "a kind of property": (
        "class P(property):\n    def __get__(self, o, c=None): return self.k\nclass C: p = P()",
        "C.__dict__['p'].k = k", "C().p"),
    "a kind of static method": (
        "class S(staticmethod):\n    def __get__(self, o, c=None): return lambda: self.k\n"
        "class C: f = S(len)", "C.__dict__['f'].k = k", "C.f()"),
    "a mapping proxy": ("import types\nd = {}\np = types.MappingProxyType(d)", "d['k'] = k",
        "p['k']"),
    "copyreg": (
        "import copy, copyreg\nclass C: pass\nbox = [0]\n"
        "copyreg.pickle(C, lambda o: (int, (box[0],)))", "box[0] = k", "copy.copy(C())"),
    "a registered class": ("import numbers\nclass C: pass\nclass Other: pass",
        "numbers.Integral.register(C) if k else None", "isinstance(C(), numbers.Integral)"),
    "overloads": ("import typing\ndef f(): pass\nf.__module__ = __name__",
        "typing.clear_overloads()\nfor i in range(k):\n    text = '\\n"
        "' * i + '@typing.overload\\ndef f(): pass'\n"
        "    exec(text, dict(typing=typing, __name__=__name__))", "len(typing.get_overloads(f))"),
    "an enum's map": ("import enum\nclass E(enum.Enum): A = 0\n", "E._value2member_map_['a'] = k",
        "E._value2member_map_['a']"),
    "a patched class": ("class C:\n    def f(self): return 0", "C.f = lambda self, k=k: k",
        "C().f()"),
    "strides": ("import numpy\nbox = [numpy.zeros(4)]",
        "box[0] = numpy.zeros(4 * (k + 1))[:: k + 1]", "box[0].strides[0]"),
    "flags": ("import numpy\na = numpy.zeros(4)", "a.flags.writeable = bool(k % 2)",
        "a.flags.writeable"),
    "a generic alias": ("box = [list[int]]", "box[0] = list[(int,) * (k + 1)]",
        "len(box[0].__args__)"),
    "a weak reference": (
        "import weakref\nclass C: pass\no = C()\nr = weakref.ref(o)", "o.k = k", "r().k"),
    "a generator": ("def g():\n    while True: yield box\nbox = 0\ni = g()", "box = k", "next(i)"),
    "an iterator": ("import itertools\ni = itertools.count()", "i = itertools.count(k)", "next(i)"),
}  # fmt: skip

STATES = (
    _FILES
    | _MODULES
    | {name: State(*texts) for name, texts in (_VISIBLE | _STRANGERS).items()}
    | _DATA_MODEL
)

# How a function comes to read the state: a text that defines `make`, which makes it anew.
FORMS = {
    "directly": "make = lambda: lambda x: x * ({read})",
    "through a helper": "def helper(): return {read}\nmake = lambda: lambda x: x * helper()",
    "through a closure": """
        def outer():
            def inner(): return {read}
            return lambda x: x * inner()
        make = outer
        """,
    "through a default": "make = lambda: lambda x, f=(lambda: {read}): x * f()",
    "through a method": """
        class Reader:
            def read(self): return {read}
        reader = Reader()
        make = lambda: lambda x: x * reader.read()
        """,
    "as a method": """
        class Caller:
            def call(self, x): return x * ({read})
        make = lambda: Caller().call
        """,
    "through a partial": """
        import functools
        make = lambda: functools.partial(lambda f, x: x * f(), lambda: {read})
        """,
    "through a dict": "table = dict(f=lambda: {read})\nmake = lambda: lambda x: x * table['f']()",
    "through getattr": """
        class Named:
            @property
            def value(self): return {read}
        named = Named()
        make = lambda: lambda x: x * getattr(named, 'value')
        """,
    "through map": "make = lambda: lambda x: x * list(map(lambda _: {read}, [0]))[0]",
    "in a comprehension": "make = lambda: lambda x: x * sum([{read} for _ in range(1)])",
    "through a decorator": """
        import functools
        def decorated(f):
            @functools.wraps(f)
            def wrapper(*args): return f(*args)
            return wrapper
        make = lambda: decorated(lambda x: x * ({read}))
        """,
    "through an operator": """
        class Scale:
            def __rmul__(self, x): return x * ({read})
        scale = Scale()
        make = lambda: lambda x: x * 1.0 * scale
        """,
}


def namespace(state: State, folder: Any) -> dict[str, Any]:
    """The namespace of a module in which the state was set up. folder: a path for its files."""
    name = f"hidden_state_{next(_numbers)}"
    module = sys.modules[name] = types.ModuleType(name)  # dataclasses look for it there
    module.__dict__["folder"] = folder
    exec(textwrap.dedent(state.setup), module.__dict__)
    return module.__dict__


def maker(state: State, form: str, names: dict[str, Any]) -> Any:
    """The function `make` of a form, in the namespace of the state."""
    exec(textwrap.dedent(FORMS[form]).replace("{read}", state.read), names)
    return names["make"]
