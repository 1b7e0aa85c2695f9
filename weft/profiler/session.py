"""Names regions of a program, and takes profiles in which those names appear.

A profile is a directory that TensorBoard, XProf and Perfetto read: what the host and the devices
did when. `named_scope` names operations, for profiles, error messages and the compiler's dumps;
`TraceAnnotation` names a stretch of the host's time.

A memory profile says what lies in the memory of devices, as https://github.com/google/pprof reads
it. The viewer at ui.perfetto.dev reads a profile from a server on this machine, port 9001: the one
port that its security policy allows.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import gzip
import http.server
import os
import shutil
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, ParamSpec, Self, TypeVar

from weft.base import source
from weft.errors import Fix, ProfilerError, WeftTypeError, WeftValueError, api_boundary
from weft.runtime import profiler


@api_boundary
def device_memory_profile(backend: str | None = None) -> bytes:
    """Returns which arrays and programs take memory now, as a compressed protocol buffer of pprof.

    It names the lines that made them where the setting `allocation_tracebacks` is on when the first
    device is requested (`WEFT_ALLOCATION_TRACEBACKS=1`): that costs up to a third of a small call.

    `backend` names a platform, by default the one in use. Raises WeftValueError for one that is
    unknown or not installed.

    >>> import weft.profiler
    >>> weft.profiler.device_memory_profile()[:2] == bytes([0x1F, 0x8B])
    True
    """
    return gzip.compress(profiler.heap_profile(backend))


@api_boundary
def save_device_memory_profile(
    filename: str | os.PathLike[str], backend: str | None = None
) -> None:
    """Writes `device_memory_profile` to a file, for `pprof --web FILE`. Raises OSError if it
    cannot be written.

    filename: the path of the file, which is written anew; backend: the name of a platform, such as
    "cpu"; None for the one in use.
    """
    with open(filename, "wb") as file:
        file.write(device_memory_profile(backend))


_PORT = 9001


def write_for_perfetto(log_dir: str) -> Path | None:
    """Copies the newest profile below a directory to `perfetto_trace.json.gz` next to it."""
    found = Path(log_dir).glob("plugins/profile/*/*.trace.json.gz")
    newest = max(found, key=os.path.getmtime, default=None)
    if newest is None:
        return None
    target = newest.parent / "perfetto_trace.json.gz"
    shutil.copyfile(newest, target)
    return target


class _Handler(http.server.SimpleHTTPRequestHandler):
    """Hands out one file to the viewer, and notes that it has."""

    def end_headers(self) -> None:
        self.send_header("Access-Control-Allow-Origin", "*")
        super().end_headers()

    def do_GET(self) -> None:
        self.server.asked = self.path.lstrip("/")  # type: ignore[attr-defined]
        super().do_GET()

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        """Says nothing."""


def serve_once(file: Path, port: int = _PORT) -> None:
    """Prints a link that opens a profile in the viewer, and waits until it has been fetched."""

    def handler(*args: Any) -> _Handler:
        return _Handler(*args, directory=str(file.parent))

    with http.server.HTTPServer(("127.0.0.1", port), handler) as server:
        server.asked = ""  # type: ignore[attr-defined]
        address = f"http://127.0.0.1:{server.server_port}/{file.name}"
        print(f"Open URL in browser: https://ui.perfetto.dev/#!/?url={address}", flush=True)
        while server.asked != file.name:  # type: ignore[attr-defined]
            server.handle_request()


P = ParamSpec("P")
R = TypeVar("R")


def _check_name(name: Any, operation: str) -> str:
    fix = Fix("name", f"pass a string, such as {operation}('attention')")
    if not isinstance(name, str):
        message = f"{operation} takes a name"
        got = f"{name!r:.100} of class {type(name).__name__}"
        raise WeftTypeError(message, operation=operation, got=got, wanted="a string", fix=fix)
    if not name:
        message = f"{operation} takes a name that is not empty"
        raise WeftValueError(message, got="''", wanted="a string of one character or more", fix=fix)
    return name


class named_scope:
    """Names the operations of a block or of a function: `with named_scope("attention"):`.

    name: a string of one character or more, for example the name of a layer. Scopes nest, as
    "block/attention". The name precedes each operation's own name in modules and profiles, and in
    the errors that these operations raise. Operations of the backward pass get it as
    "transpose(attention)". A scope changes no result and compiles nothing again. Raises
    WeftTypeError or WeftValueError if `name` is not a string of one character or more.

    >>> import weft
    >>> @weft.named_scope("halve")
    ... def halve(x):
    ...     return x / 2.0
    >>> "jit(halve)/halve/div" in weft.jit(halve).lower(1.0).as_text(debug_info=True)
    True
    """

    __slots__ = ("_entered", "name")

    @api_boundary
    def __init__(self, name: str) -> None:
        self.name = _check_name(name, "named_scope")
        # One object may be entered again before it is left.
        self._entered: list[source.entered_scope] = []

    def __enter__(self) -> Self:
        scope = source.entered_scope(self.name)
        scope.__enter__()
        self._entered.append(scope)
        return self

    def __exit__(self, *_: object) -> None:
        self._entered.pop().__exit__()

    def __call__(self, function: Callable[P, R]) -> Callable[P, R]:
        name = self.name

        @functools.wraps(function)
        def named(*args: P.args, **kwargs: P.kwargs) -> R:
            with source.entered_scope(name):
                return function(*args, **kwargs)

        return named


def named_call(fun: Callable[P, R], *, name: str | None = None) -> Callable[P, R]:
    """A function whose operations are in the `named_scope` of its own name, or of `name`.

    fun: a function of any arguments.

    Raises WeftTypeError or WeftValueError if that is not a string of one character or more.

    >>> import weft
    >>> halve = weft.named_call(lambda x: x / 2.0, name="halve")
    >>> "halve/div" in weft.jit(lambda x: halve(x)).lower(1.0).as_text(debug_info=True)
    True
    """
    found = getattr(fun, "__name__", type(fun).__name__) if name is None else name
    return named_scope(_check_name(found, "named_call"))(fun)


class TraceAnnotation:
    """Names a block on the host's row of a profile: `with TraceAnnotation("load batch", size=32):`.

    Keyword arguments are shown with the name. Outside of profiles it costs about a microsecond.
    Raises WeftTypeError or WeftValueError if `name` is not a string of one character or more.

    name: the name of the block, a string of one character or more; metadata: numbers and texts that
    are shown with the name.
    """

    __slots__ = ("_entered", "metadata", "name")

    @api_boundary
    def __init__(self, name: str, **metadata: Any) -> None:
        self.name = _check_name(name, "TraceAnnotation")
        self.metadata = metadata
        self._entered: list[Any] = []

    def __enter__(self) -> Self:
        # The profiler starts the clock where its object is made, not where it is entered.
        event = profiler.annotation(self.name, **self.metadata)
        event.__enter__()
        self._entered.append(event)
        return self

    def __exit__(self, *_: object) -> None:
        self._entered.pop().__exit__(None, None, None)


class StepTraceAnnotation(TraceAnnotation):
    """Names one step of a training loop, so that a profile can be read step by step:
    `with StepTraceAnnotation("train", step_num=i):`.

    name: the name of the row of steps; metadata: what is shown with the name: `step_num` is the
    number of the step.
    """

    __slots__ = ()

    def __init__(self, name: str, **metadata: Any) -> None:
        # With this mark the profiler's viewers take the event for the root of a step.
        super().__init__(name, _r=1, **metadata)


def annotate_function(
    func: Callable[P, R], name: str | None = None, **metadata: Any
) -> Callable[P, R]:
    """`func`, each call of which is a `TraceAnnotation` by `name` (by default its own name).

    Args:
        func: The function whose calls are shown.
        name: The name under which they are shown; None for that of the function.
        metadata: Numbers and texts that are shown with the name.

    >>> import weft.profiler
    >>> @weft.profiler.annotate_function
    ... def load(n):
    ...     return list(range(n))
    >>> load(3)
    [0, 1, 2]
    """
    text: str = name or str(getattr(func, "__qualname__", type(func).__name__))

    @functools.wraps(func)
    def annotated(*args: P.args, **kwargs: P.kwargs) -> R:
        with TraceAnnotation(text, **metadata):
            return func(*args, **kwargs)

    return annotated


@dataclasses.dataclass
class ProfileOptions:
    """Options of a profile: what it records.

    `host_tracer_level` goes from 0 (nothing of the host) over 1 (annotations) and 2 (also what XLA
    does) to 3 (everything); `python_tracer_level` 0 leaves Python's function calls out.
    `advanced_configuration` holds options of single devices' profilers. With a `session_id` the
    folder of the profile has that name instead of the time; a `duration_ms` above 0 ends it then.

    Args:
        enable_hlo_proto: Whether the profile holds the programs that ran, in XLA's form.
        include_dataset_ops: Whether it holds operations of TensorFlow's data sets.
        start_timestamp_ns: When XLA's profiler is to begin, in nanoseconds since 1970; 0 for
            at once.
        repository_path: The directory for what XLA's profiler writes by itself; "" for nothing.
        raise_error_on_start_failure: Whether a device profiler that does not start is an error.
    """

    host_tracer_level: int = 2
    python_tracer_level: int = 1
    enable_hlo_proto: bool = True
    advanced_configuration: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    include_dataset_ops: bool = True
    duration_ms: int = 0
    start_timestamp_ns: int = 0
    repository_path: str = ""
    session_id: str = ""
    raise_error_on_start_failure: bool = False


class _RunningTrace:
    """The profile in progress; a process can have one."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.session: Any = None
        self.log_dir = ""
        self.server: Any = None
        # Whether a file for Perfetto is written as well, and a link to it is shown.
        self.perfetto = (False, False)


_state = _RunningTrace()


@api_boundary
def start_trace(
    log_dir: str | os.PathLike[str],
    create_perfetto_link: bool = False,
    create_perfetto_trace: bool = False,
    profiler_options: ProfileOptions | None = None,
) -> None:
    """Starts taking a profile; `stop_trace` writes it below `log_dir`, which is made if need be.

    Calls return before devices have finished: let the results be `block_until_ready` before the
    profile is stopped. With `create_perfetto_trace` a file `perfetto_trace.json.gz` is written too;
    `create_perfetto_link` also prints a link that opens it at ui.perfetto.dev, and `stop_trace`
    waits until it has been followed. Raises ProfilerError if a profile is being taken already,
    OSError if the directory cannot be made.

    profiler_options: what the profile records; None for the defaults of `ProfileOptions`.
    """
    directory = os.fspath(log_dir)
    options = profiler_options or ProfileOptions()
    with _state.lock:
        if _state.session is not None:
            message = "a profile is being taken already, and a process can take one at a time"
            got = f"a profile for {directory} while one for {_state.log_dir} is being taken"
            fix = Fix("stop_trace", "call weft.profiler.stop_trace() first")
            raise ProfilerError(message, got=got, fix=fix)
        os.makedirs(directory, exist_ok=True)
        values = {field.name: getattr(options, field.name) for field in dataclasses.fields(options)}
        values["advanced_configuration"] = dict(options.advanced_configuration)
        _state.session = profiler.start_session(values)
        _state.log_dir = directory
        _state.perfetto = (create_perfetto_trace or create_perfetto_link, create_perfetto_link)


@api_boundary
def stop_trace() -> None:
    """Ends the profile that `start_trace` began and writes it: `<log_dir>/plugins/profile/<time>/`
    gets an `.xplane.pb` for TensorBoard and XProf and a `.trace.json.gz` for Perfetto.

    Raises ProfilerError if no profile is being taken.
    """
    with _state.lock:
        session, _state.session = _state.session, None
        if session is None:
            fix = Fix("start_trace", "call weft.profiler.start_trace(log_dir) before it")
            raise ProfilerError("no profile is being taken", fix=fix)
        session.stop_and_export(_state.log_dir)
        written, linked = _state.perfetto
        file = write_for_perfetto(_state.log_dir) if written else None
    if file is not None and linked:
        serve_once(file)


@contextlib.contextmanager
def trace(
    log_dir: str | os.PathLike[str],
    create_perfetto_link: bool = False,
    create_perfetto_trace: bool = False,
    profiler_options: ProfileOptions | None = None,
) -> Iterator[None]:
    """A `with` block that is profiled, as by `start_trace` and `stop_trace`.

    The profile is written even if the block raises an error.

    Args:
        log_dir: The directory below which the profile is written.
        create_perfetto_link: Whether a link is printed that opens the profile at ui.perfetto.dev.
        create_perfetto_trace: Whether a file `perfetto_trace.json.gz` is written too.
        profiler_options: What the profile records; None for the defaults of `ProfileOptions`.
    """
    start_trace(log_dir, create_perfetto_link, create_perfetto_trace, profiler_options)
    try:
        yield
    finally:
        stop_trace()


@api_boundary
def start_server(port: int) -> Any:
    """Lets TensorBoard take profiles of this process through a port, until `stop_server`.

    Returns the server.

    port: the number of a free port.

    Raises ProfilerError if a server runs already.
    """
    with _state.lock:
        if _state.server is not None:
            message = "a profiler server runs already, and a process can have one"
            fix = Fix("stop_server", "call weft.profiler.stop_server() first")
            raise ProfilerError(message, fix=fix)
        _state.server = profiler.start_server(port)
        return _state.server


@api_boundary
def stop_server() -> None:
    """Stops the server that `start_server` began. Raises ProfilerError if there is none."""
    with _state.lock:
        if _state.server is None:
            fix = Fix("start_server", "call weft.profiler.start_server(port) before it")
            raise ProfilerError("no profiler server runs", fix=fix)
        _state.server = None


@api_boundary
def register_subprocess(pid: int, port: int) -> Callable[[], None]:
    """Includes in profiles of this process those of another process, which runs a server on a port.

    Returns the function that ends this. Raises ProfilerError if no such server answers.

    pid: the number of the other process, as the operating system counts; port: the port of its
    server.
    """
    try:
        ended: Callable[[], None] = profiler.register_subprocess(pid, port)
    except RuntimeError as error:
        message = f"the process {pid} cannot be registered: {error}"
        wanted = f"a process that runs weft.profiler.start_server({port})"
        raise ProfilerError(message, wanted=wanted) from None
    return ended
