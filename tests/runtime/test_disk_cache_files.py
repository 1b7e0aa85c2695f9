"""Something else in the place of each file of the cache: nothing hangs, raises or is overwritten.

Each bad kind is put in the place of each file that the cache opens. Whatever is there, a look is a
hit with the right bytes or a miss, a process says so once, and what a link leads to stays as it is.
"""

from __future__ import annotations

import contextlib
import os
import pathlib
import signal
import socket
import struct
import time
import warnings
import zlib

import pytest

import weft
from weft import config
from weft.runtime.backends import disk_cache
from weft.runtime.backends.disk_cache import ProgramCache

pytestmark = pytest.mark.fast

KEY, OTHER = "a" * 64, "b" * 64
MAKER = "weft 1, jaxlib 1.2.3"
PAYLOAD = bytes(range(256)) * 3
HUGE = 1 << 40
# Longer than any step takes that waits for nothing, on a machine that is busy.
LIMIT = 30


@pytest.fixture(autouse=True)
def nothing_warned_yet(monkeypatch):
    """A process warns once of each kind of finding; each test is to see its own."""
    monkeypatch.setattr(disk_cache, "_warned", set())
    monkeypatch.setattr(disk_cache, "_opened", {})


@contextlib.contextmanager
def at_once():
    """Fails, rather than hangs, where a file is waited for."""

    def late(*_):
        raise AssertionError("it waits for something")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(LIMIT)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


# ---- what can be in the place of a file ----------------------------------------------------------


def bytes_of(content):
    return lambda path, _: path.write_bytes(content)


def sparse(length):
    def make(path, _):
        with open(path, "wb") as file:
            file.truncate(length)

    return make


def link_to(name):
    return lambda path, around: path.symlink_to(around / name)


def a_socket(path, around):
    # The path of a socket has 108 bytes at most.
    here = os.open(path.parent, os.O_RDONLY)
    try:
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(f"/proc/self/fd/{here}/{path.name}")
    finally:
        os.close(here)


def a_device(path, _):
    try:
        os.mknod(path, 0o600 | 0o020000, os.makedev(1, 5))  # /dev/zero
    except PermissionError:
        pytest.skip("only root makes devices")


def of_another_user(path, _):
    path.write_bytes(b"%020d\n" % 7)
    try:
        os.chown(path, 12345, 12345)
    except PermissionError:
        pytest.skip("only root gives files away")


def closed(mode):
    def make(path, _):
        path.write_bytes(b"%020d\n" % 7)
        path.chmod(mode)

    return make


def folder_with_a_file(path, _):
    path.mkdir()
    (path / "file").write_text("mine")


KINDS = {
    "nothing": lambda path, _: None,
    "an empty file": bytes_of(b""),
    "garbage": bytes_of(b"\xff\x00" * 500),
    "digits": bytes_of(b"9" * 1000),
    "a count of 2**62": bytes_of(b"%020d\n" % (1 << 62)),
    "a negative count": bytes_of(b"-%019d\n" % 5),
    "a count that is too low": bytes_of(b"%020d\n" % 0),
    "a huge file": sparse(HUGE),
    "a pipe": lambda path, _: os.mkfifo(path, 0o600),
    "a socket": a_socket,
    "a device": a_device,
    "a folder": lambda path, _: path.mkdir(),
    "a folder with a file": folder_with_a_file,
    "a link to a file": link_to("victim"),
    "a link to a folder": link_to("folder"),
    "a link to a pipe": link_to("pipe"),
    "a link to nothing": link_to("nowhere"),
    "a link to itself": lambda path, _: path.symlink_to(path),
    "another name of a file": lambda path, around: os.link(around / "victim", path),
    "a file of another user": of_another_user,
    "a file that all can write": closed(0o666),
    "a file that none can open": closed(0o000),
}  # fmt: skip
ROLES = {
    "the directory": "cache",
    "the entries": "cache/programs",
    "an entry": f"cache/programs/{KEY}.program",
    "another entry": f"cache/programs/{'c' * 64}.program",
    "the count": "cache/programs/size",
    "an unfinished file": "cache/programs/0123456789abcdef.unfinished",
}  # fmt: skip


@pytest.fixture
def around(tmp_path):
    """A folder with what links lead to, beside a cache that has one entry."""
    (tmp_path / "victim").write_bytes(b"precious")
    (tmp_path / "victim").chmod(0o600)
    (tmp_path / "folder").mkdir(mode=0o700)
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "cache" / "programs").mkdir(parents=True, mode=0o700)
    (tmp_path / "cache").chmod(0o700)
    ProgramCache(str(tmp_path / "cache" / "programs"), 1 << 20).store(KEY, MAKER, PAYLOAD)
    return tmp_path


def replaced(path, kind, around):
    """Puts something of a kind in the place of a file, or of a folder."""
    if path.is_dir():
        path.rename(around / "moved away")
    elif path.exists():
        path.unlink()
    KINDS[kind](path, around)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("role", ROLES)
def test_something_else_in_the_place_of_a_file(around, role, kind, monkeypatch):
    copied_in = role in ("another entry", "an unfinished file")
    if copied_in:  # The next store counts it.
        monkeypatch.setattr(disk_cache, "_RECOUNT", 1)
    replaced(around / ROLES[role], kind, around)
    with at_once(), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        cache = disk_cache._open(str(around / "cache"), 1 << 20)
        if cache is not None:
            for key in (KEY, OTHER, KEY, OTHER):
                assert cache.load(key, MAKER) in (None, PAYLOAD)
                cache.store(key, MAKER, PAYLOAD)
            # Whoever is refused the count keeps nothing; all else is put right.
            found = [cache.load(key, MAKER) for key in (KEY, OTHER)]
            assert cache.info().entries >= sum(x is not None for x in found)
            if copied_in:
                assert found == [PAYLOAD, PAYLOAD] and cache.info().nbytes <= 1 << 20
            cache.clear()
    assert len({str(one.message).partition(":")[0] for one in caught}) == len(caught) <= 2, caught
    assert (around / "victim").read_bytes() == b"precious"
    assert (around / "victim").stat().st_mode & 0o777 == 0o600
    if "a folder with a file" == kind:
        assert (around / ROLES[role] / "file").read_text() == "mine"
    if role == "the count" and "count of" in kind:
        assert found == [PAYLOAD, PAYLOAD] and not caught


@pytest.mark.parametrize("kind", ["a pipe", "a link to a file", "a count of 2**62", "a socket"])
@pytest.mark.parametrize("role", ROLES)
def test_a_function_computes_all_the_same(around, role, kind):
    replaced(around / ROLES[role], kind, around)
    with at_once(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with config.override(cache_dir=str(around / "cache")):
            assert float(weft.jit(lambda x: x * 3 + 1)(2.0)) == 7.0
            weft.debug.program_cache_info()
            weft.debug.clear_program_cache()
    assert (around / "victim").read_bytes() == b"precious"


@pytest.mark.parametrize("path", ["a\0b", "\ud800", "~nobody-has-this-name/x", "x" * 5000])
def test_what_cannot_be_the_name_of_a_directory(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = disk_cache._open(path, 1 << 20)
    assert (found is None) == (len(caught) == 1)


# ---- lengths that are not so ---------------------------------------------------------------------


def with_lengths(text, stored, full):
    """An entry whose lengths were changed, with the digest that it then has."""
    data = disk_cache._pack(KEY, MAKER, PAYLOAD)
    own = zlib.compress(PAYLOAD, 1)
    start = len(disk_cache._MAGIC) + 4
    sizes = (len(MAKER), len(own), len(PAYLOAD))
    sizes = [
        given if given is not None else size
        for given, size in zip((text, stored, full), sizes, strict=True)
    ]
    end = len(data) - len(own) - disk_cache._DIGEST
    head = data[:start] + struct.pack("<IQQ", *sizes) + data[start + 20 : end]
    return head + disk_cache.hashlib.sha256(head + own).digest() + own


LENGTHS = [0, 1, len(PAYLOAD) - 1, len(PAYLOAD) + 1, 1 << 31, 1 << 32, 1 << 62, (1 << 64) - 1]


@pytest.mark.parametrize("which", [0, 1, 2])
@pytest.mark.parametrize("length", LENGTHS)
def test_a_length_that_is_not_so(around, which, length):
    if which == 0 and length >= 1 << 32:
        length = (1 << 32) - 1
    given = [None, None, None]
    given[which] = length
    entry = pathlib.Path(around / ROLES["an entry"])
    entry.write_bytes(with_lengths(*given))
    cache = ProgramCache(str(around / "cache" / "programs"), 1 << 20)
    began = time.monotonic()
    with pytest.warns(RuntimeWarning, match="is skipped: it"):
        assert cache.load(KEY, MAKER) is None
    assert time.monotonic() - began < LIMIT
    entry.write_bytes(with_lengths(None, None, None))
    assert cache.load(KEY, MAKER) == PAYLOAD


def test_a_payload_that_unpacks_to_more_than_it_says(around):
    """A gigabyte of zeros takes a megabyte: no more is unpacked than the head names."""
    own = zlib.compress(bytes(1 << 26), 9)
    head = disk_cache._pack(KEY, MAKER, PAYLOAD)
    head = head[: len(head) - len(zlib.compress(PAYLOAD, 1)) - disk_cache._DIGEST]
    start = len(disk_cache._MAGIC) + 4
    head = head[:start] + struct.pack("<IQQ", len(MAKER), len(own), 100) + head[start + 20 :]
    data = head + disk_cache.hashlib.sha256(head + own).digest() + own
    with pytest.raises(disk_cache._Unusable, match="another length"):
        disk_cache._unpack(KEY, MAKER, data)


def test_a_count_that_is_too_low_is_put_right(around, monkeypatch):
    """Entries that someone copied into the directory are counted now and then."""
    monkeypatch.setattr(disk_cache, "_RECOUNT", 1)
    folder = around / "cache" / "programs"
    for number in range(40):
        made = folder / f"{number:064d}.program"
        made.write_bytes(os.urandom(1000))
        os.utime(made, (1, 1))
    cache = ProgramCache(str(folder), 10_000)
    cache.store(OTHER, MAKER, PAYLOAD)
    assert cache.info().nbytes <= 10_000
    assert cache.load(OTHER, MAKER) == cache.load(KEY, MAKER) == PAYLOAD
