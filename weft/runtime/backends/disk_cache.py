"""Executables kept on disk between processes: a directory of entries, one file each.

An entry holds machine code that will be executed, so nothing in the directory is trusted: it has
to be the user's own and closed to others, and an entry has to say of itself what it is and carry
the digest of its contents. A faulty entry is a miss, and the first one of a process is a warning.
This module knows nothing of XLA: it maps a key, the name of a file, to bytes.

Every executable is worth an entry. On a CPU, XLA takes 11 to 60 ms to compile a module of one
operation and 1 ms to load it; storing it takes 0.5 ms. For a module of 1,100 operations the
three are 250, 90 and 35 ms.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import logging
import os
import secrets
import stat
import struct
import sys
import threading
import time
import warnings
import zlib
from collections.abc import Iterator

from weft import config

try:
    import fcntl
except ImportError:  # Windows has no such lock.
    fcntl = None  # type: ignore[assignment]

_log = logging.getLogger("weft")

_MAGIC = b"weft program\n"
FORMAT = 1
"""The version of what stands in an entry; another one is never read."""
# Lengths of the text that names the maker, of the payload, and of the payload as it was given.
_LENGTHS = struct.Struct("<IQQ")
_HEAD = len(_MAGIC) + 4 + _LENGTHS.size
_DIGEST = hashlib.sha256().digest_size
_SUFFIX = ".program"
_UNFINISHED = ".unfinished"
# An unfinished file this old was left behind by a process that was killed.
_ABANDONED_SECONDS = 3600.0
# How long to wait for another process that counts or evicts, until one wait was in vain.
_LOCK_SECONDS = 5.0
# The most bytes of a payload: an executable is a protocol buffer, which has less than 2 GiB. What
# names more is not read: memory for it is asked for before its digest can be verified.
_MOST = 1 << 31
# One store in so many counts the files anew: someone may have copied entries into the directory.
_RECOUNT = 256
# Evicting goes a little further than it must, so that not every new entry has to evict.
_EVICT_TO = 0.9


@dataclasses.dataclass(frozen=True)
class ProgramCacheInfo:
    """The contents of the cache of executables, and its hits and misses in this process.

    `directory` is None if there is no cache: switched off, or refused with a warning.

    Args:
        directory: The path of the cache, None if there is none.
        entries: The number of executables in the directory.
        nbytes: The bytes of their files.
        max_bytes: The bytes above which those are deleted that were not used for longest.
        hits: How many executables this process read from the cache.
        misses: How many it looked for in vain.
    """

    directory: str | None
    entries: int
    nbytes: int
    max_bytes: int
    hits: int
    misses: int


class _Unusable(Exception):
    """The reason why a directory or an entry is not used."""


class _Busy(Exception):
    """Another process has the lock."""


# ---- warnings ------------------------------------------------------------------------------------

_warned: set[str] = set()


def _warn_once(kind: str, text: str) -> None:
    """Warns once per kind; logs repeats."""
    if kind in _warned:
        _log.debug("%s", text)
        return
    _warned.add(kind)
    warnings.warn(text, RuntimeWarning, stacklevel=2)


# ---- the directory -------------------------------------------------------------------------------


def default_directory() -> str:
    """weft's directory among the user's caches, where the system keeps those."""
    if sys.platform == "win32":
        local = os.environ.get("LOCALAPPDATA") or os.path.join("~", "AppData", "Local")
        return os.path.join(os.path.expanduser(local), "weft", "cache")
    if sys.platform == "darwin":
        return os.path.expanduser("~/Library/Caches/weft")
    given = os.environ.get("XDG_CACHE_HOME", "")
    # The XDG specification has relative paths ignored.
    return os.path.join(given if os.path.isabs(given) else os.path.expanduser("~/.cache"), "weft")


def _make_directory(path: str) -> str:
    """The directory of entries within `path`, made if need be. Raises _Unusable for a bad one. All
    releases share one directory, so that one bound holds for what all of them keep."""
    # Links are followed once, here: from now on no one else can point them elsewhere.
    try:
        root = os.path.realpath(os.path.expanduser(path))
    except ValueError as error:  # A zero in it, or half of a surrogate pair.
        raise _Unusable(f"{path!r} cannot be the name of a directory") from error
    if not os.path.isabs(os.path.expanduser(path)) and path.startswith("~"):
        raise _Unusable("there is no home directory")
    entries = os.path.join(root, "programs")
    try:
        os.makedirs(root, mode=0o700, exist_ok=True)
        _check_private(root, stat.S_IWGRP | stat.S_IWOTH, "can be written by others")
        with contextlib.suppress(FileExistsError):
            os.mkdir(entries, 0o700)
        _check_private(entries, stat.S_IRWXG | stat.S_IRWXO, "is open to others")
    except FileExistsError as error:
        raise _Unusable(f"{root} is not a directory") from error
    except OSError as error:
        raise _Unusable(f"{error.strerror or error}: {error.filename or entries}") from error
    return entries


def _check_private(directory: str, forbidden: int, why: str) -> None:
    found = os.lstat(directory)
    if not stat.S_ISDIR(found.st_mode):
        raise _Unusable(f"{directory} is not a directory")
    if not hasattr(os, "geteuid"):
        return  # Windows: the user's profile is closed to others.
    if found.st_uid != os.geteuid():
        raise _Unusable(f"{directory} belongs to another user; choose one of your own")
    if stat.S_IMODE(found.st_mode) & forbidden:
        raise _Unusable(f"{directory} {why}; close it with: chmod 700 {directory}")


# ---- entries -------------------------------------------------------------------------------------


def _pack(key: str, maker: str, payload: bytes) -> bytes:
    """An entry: magic, format, lengths, maker, key, digest of all this, and the compressed payload
    (executables shrink to a seventh in 1% of the time to make them)."""
    stored = zlib.compress(payload, 1)
    text = maker.encode()
    lengths = _LENGTHS.pack(len(text), len(stored), len(payload))
    head = _MAGIC + struct.pack("<I", FORMAT) + lengths + text + key.encode()
    return head + hashlib.sha256(head + stored).digest() + stored


def _unpack(key: str, maker: str, data: bytes) -> bytes:
    """The payload of an entry. Raises _Unusable if it is faulty."""
    view = memoryview(data)
    if view[: len(_MAGIC)] != _MAGIC:
        raise _Unusable("it is not an entry of this cache")
    start = len(_MAGIC) + 4
    if view[len(_MAGIC) : start] != struct.pack("<I", FORMAT):
        raise _Unusable("it has another format")
    end = start + _LENGTHS.size
    if len(view) < end:
        raise _Unusable("it is truncated")
    text, stored, full = _LENGTHS.unpack(view[start:end])
    start, end = end, end + text
    if view[start:end] != maker.encode():
        raise _Unusable("it was made by another release")
    start, end = end, end + len(key)
    if view[start:end] != key.encode():
        raise _Unusable("it holds another program than its name says")
    payload = view[end + _DIGEST :]
    if len(payload) != stored:
        raise _Unusable("it is truncated" if len(payload) < stored else "it is too long")
    digest = hashlib.sha256(view[:end])
    digest.update(payload)
    if digest.digest() != view[end : end + _DIGEST]:
        raise _Unusable("its contents do not have the digest they were written with")
    if full > _MOST:
        raise _Unusable("it names more bytes than an executable has")
    # No more than it says, and one byte that shows that there is more.
    out = zlib.decompressobj().decompress(payload, full + 1)
    if len(out) != full:
        raise _Unusable("it has another length than it says")
    return out


def _open_file(path: str, flags: int) -> int:
    """Opens a file of the directory that this user owns and nobody else can write. Raises _Unusable
    for anything else. All existing files are opened here, and checked once open, so that no one can
    swap them in between. Links are not followed, and pipes not waited for."""
    flags |= getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    flags |= getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOCTTY", 0) | getattr(os, "O_BINARY", 0)
    descriptor = os.open(path, flags, 0o600)
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise _Unusable("it is not a file")
        if hasattr(os, "geteuid"):
            if found.st_uid != os.geteuid():
                raise _Unusable("it belongs to another user")
            if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
                raise _Unusable("it can be written by others")
        if flags & os.O_RDWR and found.st_nlink > 1:
            raise _Unusable("it has another name, too, under which it would change")
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _read(path: str, key: str) -> bytes:
    """The bytes of an entry: as many as its head names, and one more if there are more."""
    with os.fdopen(_open_file(path, os.O_RDONLY), "rb") as file:
        head = file.read(_HEAD)
        if len(head) < _HEAD or not head.startswith(_MAGIC):
            return head
        text, stored, _ = _LENGTHS.unpack(head[-_LENGTHS.size :])
        following = text + len(key) + _DIGEST + stored
        if following > _MOST:
            raise _Unusable("it names more bytes than an executable has")
        return head + file.read(following + 1)


# ---- the cache -----------------------------------------------------------------------------------


class ProgramCache:
    """A directory of entries, the most recently used ones up to `max_bytes`. A key is the name of a
    file, and `maker` the release that made an entry: no other reads it. Any number of threads and
    processes may use one directory at the same time. An unreadable entry is a miss, an unwritable
    one is not kept; both warn once in a process, neither raises."""

    def __init__(self, directory: str, max_bytes: int) -> None:
        self.directory = directory
        self.max_bytes = max_bytes
        self.writable = True
        self.hits = 0
        self.misses = 0
        self._count_path = os.path.join(directory, "size")
        self._lock_seconds = _LOCK_SECONDS

    def _path(self, key: str) -> str:
        return os.path.join(self.directory, key + _SUFFIX)

    def load(self, key: str, maker: str) -> bytes | None:
        """The bytes stored under a key; None if there are none, or none that can be trusted."""
        path = self._path(key)
        out = None
        try:
            out = _unpack(key, maker, _read(path, key))
        except FileNotFoundError:
            pass
        except _Unusable as error:
            self.discard(key, str(error))
        except (OSError, zlib.error, MemoryError) as error:
            self.discard(key, f"it cannot be read ({error or 'there is no memory for it'})")
        if out is None:
            self.misses += 1
            _log.debug("compiled program %s: not in the cache", key)
            return None
        self.hits += 1
        _log.debug("compiled program %s: found in the cache", key)
        with contextlib.suppress(OSError):  # A cache that is only read has no order of use.
            os.utime(path)
        return out

    def refuse(self, key: str, reason: str) -> None:
        """Counts an entry that `load` found, but no one can use, as a miss, and removes it."""
        self.hits -= 1
        self.misses += 1
        self.discard(key, reason)

    def discard(self, key: str, why: str) -> None:
        """Removes an entry that cannot be used, and warns of it."""
        _warn_once("entry", f"an entry of the cache of compiled programs is skipped: {why}\n"
                   f"  {self._path(key)}")  # fmt: skip
        with contextlib.suppress(OSError):
            if not hasattr(os, "geteuid") or os.lstat(self._path(key)).st_uid == os.geteuid():
                os.unlink(self._path(key))

    def store(self, key: str, maker: str, payload: bytes) -> None:
        """Keeps bytes under a key, in place of what is there."""
        if not self.writable:
            return
        if len(payload) > _MOST:
            return
        data = _pack(key, maker, payload)
        if len(data) > self.max_bytes:
            return
        try:
            try:
                self._write(key, data)
            except FileNotFoundError:  # The directory was removed.
                # One by one: `makedirs` closes only the last one of those that it makes.
                os.makedirs(os.path.dirname(self.directory), mode=0o700, exist_ok=True)
                os.makedirs(self.directory, mode=0o700, exist_ok=True)
                self._write(key, data)
        except IsADirectoryError:
            self.discard(key, "a directory has its name")
        except _Busy as error:
            _warn_once("lock", f"a compiled program is not kept: {error}\n  {self._count_path}")
        except (OSError, _Unusable) as error:
            # Once is enough: a disk that is full or closed stays so for as long as most processes.
            self.writable = False
            what = error.strerror if isinstance(error, OSError) else None
            _warn_once(
                "write",
                f"compiled programs are not kept any more: {what or error}\n  in {self.directory}",
            )

    def _write(self, key: str, data: bytes) -> None:
        # Nothing is forced to the disk: were the power cut, an entry might be there without its
        # contents, and the digest tells. Waiting for a disk takes longer than some compilations.
        name = os.path.join(self.directory, f"{os.urandom(8).hex()}{_UNFINISHED}")
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
        descriptor = os.open(name, flags | getattr(os, "O_BINARY", 0), 0o600)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(data)
            with self._room(len(data)):
                os.replace(name, self._path(key))
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(name)
            raise

    # -- the bound --

    @contextlib.contextmanager
    def _room(self, size: int) -> Iterator[None]:
        """Makes room for an entry and counts its bytes; no other is added within the `with` block.
        The count is in a file, so that a new entry need not look at all others. It may be too high
        (entries written twice, or discarded), and is corrected when it exceeds the bound; the lock
        keeps it from being too low."""
        with self._open_locked() as descriptor:
            total = _read_count(descriptor)
            again = secrets.randbelow(_RECOUNT) == 0
            if total is None or again or total + size > self.max_bytes:
                # The entry itself is among the files that are being written.
                total = self._evict(self.max_bytes) - size
            _write_count(descriptor, total + size)
            yield

    @contextlib.contextmanager
    def _open_locked(self) -> Iterator[int]:
        """The file with the count, locked against other threads and processes. Raises _Unusable if
        something else is in its place, and _Busy if another process keeps it locked: the system
        frees the lock of a killed process, but not of a stopped one. After one wait in vain none
        waits until the lock is free."""
        try:
            descriptor = _open_file(self._count_path, os.O_RDWR | os.O_CREAT)
        except FileNotFoundError:  # The directory was removed.
            raise
        except (OSError, _Unusable) as error:
            why = error.strerror if isinstance(error, OSError) else None
            raise _Unusable(f"{self._count_path} cannot be used: {why or error}") from None
        try:
            self._lock(descriptor)
            yield descriptor
        finally:
            if fcntl is not None:
                # Closing is not enough: a process forked meanwhile has the file open, too.
                with contextlib.suppress(OSError):
                    fcntl.flock(descriptor, fcntl.LOCK_UN)
            os.close(descriptor)

    def _lock(self, descriptor: int) -> None:
        """Locks the file with the count. Raises _Busy if another process keeps it locked."""
        end = time.monotonic() + self._lock_seconds
        while fcntl is not None:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > end:
                    self._lock_seconds = 0.0
                    raise _Busy(
                        "another process, which may be stopped, keeps a file locked"
                    ) from None
                time.sleep(0.001)
            except OSError:  # A file system without locks.
                break
        self._lock_seconds = _LOCK_SECONDS

    def _evict(self, most: int) -> int:
        """Removes files of killed processes and, if all entries take more than `most` bytes, the
        least recently used ones. Returns the bytes of the remaining files."""
        found, total = [], 0
        for name, size, used in self._files():
            # Nothing that is kept is larger than `most`: it would push out all the others.
            if _is_abandoned(name, used) or size > most:
                self._remove(name)
                continue
            total += size
            if name.endswith(_SUFFIX):
                found.append((used, name, size))
        if total <= most:
            return total
        for _, name, size in sorted(found):
            if total <= most * _EVICT_TO:
                break
            self._remove(name)
            total -= size
        return total

    def _remove(self, name: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(os.path.join(self.directory, name))

    def _files(self) -> Iterator[tuple[str, int, float]]:
        """Name, bytes and time of last use of the entries, and of those being written."""
        try:
            listed = os.scandir(self.directory)
        except OSError:  # The directory was removed, or closed.
            return
        with listed:
            for entry in listed:
                if entry.name.endswith((_SUFFIX, _UNFINISHED)):
                    with contextlib.suppress(FileNotFoundError):
                        about = entry.stat(follow_symlinks=False)
                        if not stat.S_ISDIR(about.st_mode):  # Not made by a cache, nor removed.
                            yield entry.name, about.st_size, about.st_mtime_ns / 1e9

    # -- looking and clearing --

    def info(self) -> ProgramCacheInfo:
        """The number and size of the entries, and the hits and misses in this process."""
        sizes = [size for name, size, _ in self._files() if name.endswith(_SUFFIX)]
        return ProgramCacheInfo(
            self.directory, len(sizes), sum(sizes), self.max_bytes, self.hits, self.misses
        )

    def clear(self) -> None:
        """Removes all entries; those that are being written are added afterwards."""
        for name, _, used in list(self._files()):
            if name.endswith(_SUFFIX) or _is_abandoned(name, used):
                self._remove(name)


def _is_abandoned(name: str, used: float) -> bool:
    """Whether a dead process left this unfinished file."""
    return name.endswith(_UNFINISHED) and used < time.time() - _ABANDONED_SECONDS


def _read_count(descriptor: int) -> int | None:
    text = os.read(descriptor, 32)
    return int(text) if len(text) == 21 and text.strip().isdigit() else None


def _write_count(descriptor: int, total: int) -> None:
    os.lseek(descriptor, 0, os.SEEK_SET)
    os.write(descriptor, b"%020d\n" % total)
    os.ftruncate(descriptor, 21)


# ---- the cache in force --------------------------------------------------------------------------

_opened: dict[tuple[str | None, int], ProgramCache | None] = {}
_lock = threading.Lock()


def current() -> ProgramCache | None:
    """The cache that the settings in force name; None if there is none.

    A directory that cannot be used is refused with one warning.
    """
    settings = config.host_settings()
    if settings.cache_dir == "":
        return None
    wanted = settings.cache_dir, settings.cache_max_bytes
    with _lock:
        if wanted not in _opened:
            _opened[wanted] = _open(*wanted)
        return _opened[wanted]


def _open(path: str | None, max_bytes: int) -> ProgramCache | None:
    try:
        return ProgramCache(_make_directory(path or default_directory()), max_bytes)
    except _Unusable as error:
        _warn_once(
            "directory",
            f"compiled programs are not kept between processes: {error}\n"
            "  (WEFT_CACHE_DIR names another directory, or none where it is empty)",
        )
        return None


def program_cache_info() -> ProgramCacheInfo:
    """The contents of the cache of executables, and its hits and misses in this process.

    `directory` is None if none are kept: `WEFT_CACHE_DIR` is empty, or the directory was
    refused. Looks at every entry.

    >>> import tempfile, weft
    >>> with tempfile.TemporaryDirectory() as folder, weft.config.override(cache_dir=folder):
    ...     _ = weft.jit(lambda x: x * 3 - 1)(2.0)
    ...     found = program_cache_info()
    >>> found.entries, found.hits, found.misses
    (1, 0, 1)
    """
    cache = current()
    return ProgramCacheInfo(None, 0, 0, 0, 0, 0) if cache is None else cache.info()


def clear_program_cache() -> None:
    """Removes all executables from the cache on disk; those that are loaded stay usable.

    >>> import tempfile, weft
    >>> with tempfile.TemporaryDirectory() as folder, weft.config.override(cache_dir=folder):
    ...     _ = weft.jit(lambda x: x * 3 - 2)(2.0)
    ...     clear_program_cache()
    ...     program_cache_info().entries
    0
    """
    cache = current()
    if cache is not None:
        cache.clear()
