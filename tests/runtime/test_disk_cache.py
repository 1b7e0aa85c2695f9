"""The directory of compiled programs: what is found again, what is refused, and what is evicted."""

from __future__ import annotations

import contextlib
import fcntl
import os
import resource
import stat
import subprocess
import sys
import time
import warnings

import pytest

from at_once import together
from weft import config
from weft.runtime.backends import disk_cache
from weft.runtime.backends.disk_cache import ProgramCache

pytestmark = pytest.mark.fast

KEY, OTHER = "a" * 64, "b" * 64
MAKER = "weft 1, jaxlib 1.2.3"
PAYLOAD = bytes(range(256)) * 3


@pytest.fixture(autouse=True)
def nothing_warned_yet(monkeypatch):
    """A process warns once of each kind of finding; each test is to see its own."""
    monkeypatch.setattr(disk_cache, "_warned", set())
    monkeypatch.setattr(disk_cache, "_opened", {})


@pytest.fixture
def cache(tmp_path):
    (tmp_path / "programs").mkdir(mode=0o700)
    return ProgramCache(str(tmp_path / "programs"), 1 << 20)


def entry(cache, key=KEY):
    return os.path.join(cache.directory, key + ".program")


def size_of(payload):
    return len(disk_cache._pack(KEY, MAKER, payload))


def unpredictable(count):
    """Bytes that no compression makes shorter."""
    return os.urandom(count)


# ---- what is found again -------------------------------------------------------------------------


@pytest.mark.parametrize("payload", [b"", b"x", PAYLOAD, unpredictable(100_000)])
def test_what_was_stored_is_found(cache, payload):
    assert cache.load(KEY, MAKER) is None
    cache.store(KEY, MAKER, payload)
    assert cache.load(KEY, MAKER) == payload and cache.load(OTHER, MAKER) is None
    info = cache.info()
    assert (info.entries, info.hits, info.misses) == (1, 1, 2)
    assert info.nbytes == os.path.getsize(entry(cache)) == size_of(payload)


def test_the_last_one_stored_counts(cache):
    cache.store(KEY, MAKER, b"first")
    cache.store(KEY, MAKER, b"second")
    assert cache.load(KEY, MAKER) == b"second" and cache.info().entries == 1


def test_entries_are_closed_to_others(cache):
    before = os.umask(0)
    try:
        cache.store(KEY, MAKER, PAYLOAD)
    finally:
        os.umask(before)
    assert stat.S_IMODE(os.stat(entry(cache)).st_mode) == 0o600


def test_clearing(cache):
    cache.store(KEY, MAKER, PAYLOAD)
    cache.clear()
    assert cache.load(KEY, MAKER) is None and cache.info().nbytes == 0
    cache.store(KEY, MAKER, PAYLOAD)
    assert cache.load(KEY, MAKER) == PAYLOAD


def test_a_directory_that_was_removed_is_made_again(cache):
    cache.store(KEY, MAKER, PAYLOAD)
    for name in os.listdir(cache.directory):
        os.unlink(os.path.join(cache.directory, name))
    os.rmdir(cache.directory)
    assert cache.load(KEY, MAKER) is None
    cache.clear()
    assert cache.info().entries == 0
    cache.store(KEY, MAKER, PAYLOAD)
    assert cache.load(KEY, MAKER) == PAYLOAD
    assert stat.S_IMODE(os.stat(cache.directory).st_mode) == 0o700


# ---- entries that are refused --------------------------------------------------------------------


def refused(cache, match, maker=MAKER):
    """Looking for the entry is a miss with a warning, and leaves nothing behind."""
    with pytest.warns(RuntimeWarning, match=match):
        assert cache.load(KEY, maker) is None
    assert not os.path.lexists(entry(cache))
    assert cache.hits == 0
    cache.store(KEY, maker, PAYLOAD)
    assert cache.load(KEY, maker) == PAYLOAD


def test_every_bit_matters():
    data = disk_cache._pack(KEY, MAKER, PAYLOAD)
    assert disk_cache._unpack(KEY, MAKER, data) == PAYLOAD
    for position in range(len(data)):
        for bit in range(8):
            wrong = bytearray(data)
            wrong[position] ^= 1 << bit
            with pytest.raises(disk_cache._Unusable):
                disk_cache._unpack(KEY, MAKER, bytes(wrong))


def test_every_byte_matters():
    data = disk_cache._pack(KEY, MAKER, PAYLOAD)
    for length in range(len(data)):
        with pytest.raises(disk_cache._Unusable):
            disk_cache._unpack(KEY, MAKER, data[:length])
    with pytest.raises(disk_cache._Unusable, match="too long"):
        disk_cache._unpack(KEY, MAKER, data + b"\0")


# Where the regions of an entry begin: magic, format, lengths, maker, key, digest, payload.
REGIONS = {"magic": 0, "format": 13, "lengths": 17, "maker": 37, "key": 57, "digest": 121}


@pytest.mark.parametrize(
    ("region", "match"),
    [
        ("magic", "not an entry"),
        ("format", "another format"),
        ("lengths", "another release|truncated"),
        ("maker", "another release"),
        ("key", "another program"),
        ("digest", "digest"),
    ],
)
def test_a_flipped_bit_is_a_miss(cache, region, match):
    cache.store(KEY, MAKER, PAYLOAD)
    with open(entry(cache), "r+b") as file:
        file.seek(REGIONS[region])
        byte = file.read(1)[0]
        file.seek(REGIONS[region])
        file.write(bytes([byte ^ 0x10]))
    refused(cache, match)


@pytest.mark.parametrize("length", [0, 5, 20, 100, 152, -1])
def test_a_truncated_entry_is_a_miss(cache, length):
    cache.store(KEY, MAKER, PAYLOAD)
    os.truncate(entry(cache), length if length >= 0 else os.path.getsize(entry(cache)) - 1)
    refused(cache, "skipped: it")


def test_an_entry_of_another_release_is_a_miss(cache):
    cache.store(KEY, MAKER, PAYLOAD)
    refused(cache, "another release", "weft 1, jaxlib 1.2.4")


def test_an_entry_of_another_format_is_a_miss(cache, monkeypatch):
    with monkeypatch.context() as other:
        other.setattr(disk_cache, "FORMAT", disk_cache.FORMAT + 1)
        cache.store(KEY, MAKER, PAYLOAD)
    refused(cache, "another format")


def test_an_entry_under_the_wrong_name_is_a_miss(cache):
    cache.store(OTHER, MAKER, PAYLOAD)
    os.rename(entry(cache, OTHER), entry(cache))
    refused(cache, "another program than its name says")


def test_an_entry_that_others_can_write_is_a_miss(cache):
    cache.store(KEY, MAKER, PAYLOAD)
    os.chmod(entry(cache), 0o620)
    refused(cache, "can be written by others")


def test_an_entry_that_is_a_link_is_a_miss(cache, tmp_path):
    cache.store(KEY, MAKER, PAYLOAD)
    os.rename(entry(cache), tmp_path / "elsewhere")
    os.symlink(tmp_path / "elsewhere", entry(cache))
    refused(cache, "cannot be read")


def test_an_entry_that_is_a_pipe_is_a_miss(cache):
    os.mkfifo(entry(cache), 0o600)
    refused(cache, "not a file")


def test_an_entry_of_another_user_is_a_miss_and_stays(cache, monkeypatch):
    cache.store(KEY, MAKER, PAYLOAD)
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    with pytest.warns(RuntimeWarning, match="belongs to another user"):
        assert cache.load(KEY, MAKER) is None
    assert os.path.exists(entry(cache))


def test_an_entry_that_cannot_be_read_is_a_miss(cache, monkeypatch):
    cache.store(KEY, MAKER, PAYLOAD)
    own = os.open

    def without_permission(path, flags, *rest):
        if path == entry(cache) and not flags & os.O_CREAT:
            raise PermissionError(13, "Permission denied")
        return own(path, flags, *rest)

    with monkeypatch.context() as unreadable:
        unreadable.setattr(os, "open", without_permission)
        with pytest.warns(RuntimeWarning, match="cannot be read"):
            assert cache.load(KEY, MAKER) is None


def test_a_process_warns_once(cache):
    for key in (KEY, OTHER):
        cache.store(key, MAKER, PAYLOAD)
        os.truncate(entry(cache, key), 30)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert cache.load(KEY, MAKER) is None and cache.load(OTHER, MAKER) is None
    assert len(caught) == 1


# ---- writing that fails --------------------------------------------------------------------------


@contextlib.contextmanager
def files_of_at_most(count):
    """No file can grow longer, as on a disk that is full."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (count, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_full_disk(cache):
    cache.store(KEY, MAKER, PAYLOAD)
    with files_of_at_most(4096):
        with pytest.warns(RuntimeWarning, match="not kept any more: File too large"):
            cache.store(OTHER, MAKER, unpredictable(20_000))
        cache.store(OTHER, MAKER, unpredictable(20_000))  # neither tried nor warned of again
    assert cache.load(OTHER, MAKER) is None and cache.load(KEY, MAKER) == PAYLOAD
    assert sorted(os.listdir(cache.directory)) == [KEY + ".program", "size"]


def test_a_directory_that_can_only_be_read(cache, monkeypatch):
    cache.store(KEY, MAKER, PAYLOAD)
    own = os.open

    def only_reading(path, flags, *rest):
        if flags & (os.O_CREAT | os.O_RDWR | os.O_WRONLY):
            raise OSError(30, "Read-only file system")
        return own(path, flags, *rest)

    def no_times(path):
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr(os, "open", only_reading)
    monkeypatch.setattr(os, "utime", no_times)
    assert cache.load(KEY, MAKER) == PAYLOAD
    with pytest.warns(RuntimeWarning, match="not kept any more: Read-only file system"):
        cache.store(OTHER, MAKER, PAYLOAD)
    cache.store(OTHER, MAKER, PAYLOAD)
    assert cache.load(KEY, MAKER) == PAYLOAD


KILLED = """
import os, signal, sys
from weft.runtime.backends.disk_cache import ProgramCache

def killed(*_):
    os.kill(os.getpid(), signal.SIGKILL)

os.replace = killed
ProgramCache(sys.argv[1], 1 << 20).store("a" * 64, "maker", b"payload")
"""


def test_a_process_killed_while_it_writes(cache):
    done = subprocess.run([sys.executable, "-c", KILLED, cache.directory], timeout=60)
    assert done.returncode == -9
    (left,) = [name for name in os.listdir(cache.directory) if name != "size"]
    assert cache.load(KEY, MAKER) is None  # and nothing to warn of
    # What it left counts until it is old enough to be nobody's work any more.
    cache.store(KEY, MAKER, PAYLOAD)
    assert cache.load(KEY, MAKER) == PAYLOAD
    long_ago = time.time() - 2 * disk_cache._ABANDONED_SECONDS
    os.utime(os.path.join(cache.directory, left), (long_ago, long_ago))
    os.unlink(os.path.join(cache.directory, "size"))
    cache.store(OTHER, MAKER, PAYLOAD)
    assert left not in os.listdir(cache.directory)
    assert cache.load(KEY, MAKER) == cache.load(OTHER, MAKER) == PAYLOAD


# ---- the bound -----------------------------------------------------------------------------------


def bounded(tmp_path, entries):
    """A cache with room for so many entries of 1,000 bytes, and a little more."""
    return ProgramCache(str(tmp_path), entries * size_of(unpredictable(1000)) + 100)


def keys(count):
    return [f"{i:064d}" for i in range(count)]


def kept(cache, count):
    return [key for key in keys(count) if os.path.exists(entry(cache, key))]


def test_what_was_used_longest_ago_goes_first(tmp_path):
    cache = bounded(tmp_path, 10)
    for age, key in enumerate(reversed(keys(10))):
        cache.store(key, MAKER, unpredictable(1000))
        used = time.time() - 1000 - age  # the last key is the one used last
        os.utime(entry(cache, key), (used, used))
    assert kept(cache, 10) == keys(10)
    assert cache.load(keys(10)[0], MAKER) is not None  # it was the oldest
    cache.store(OTHER, MAKER, unpredictable(1000))
    assert cache.load(OTHER, MAKER) is not None
    left = kept(cache, 10)
    assert left[0] == keys(10)[0]
    # Of the others, those used longest ago went: as many as it takes, and one or two more.
    assert left[1:] == keys(10)[-(len(left) - 1) :] and 7 <= len(left) <= 9


def test_the_bound_holds(tmp_path):
    cache = bounded(tmp_path, 5)
    for key in keys(40):
        cache.store(key, MAKER, unpredictable(1000))
        assert cache.load(key, MAKER) is not None and cache.info().nbytes <= cache.max_bytes


def test_an_entry_larger_than_the_bound_is_not_kept(tmp_path):
    cache = bounded(tmp_path, 5)
    cache.store(KEY, MAKER, unpredictable(1000))
    cache.store(OTHER, MAKER, unpredictable(6000))
    assert cache.load(OTHER, MAKER) is None and cache.load(KEY, MAKER) is not None


def test_no_room_at_all(tmp_path):
    cache = ProgramCache(str(tmp_path), 0)
    cache.store(KEY, MAKER, PAYLOAD)
    assert cache.load(KEY, MAKER) is None


@pytest.mark.parametrize("count", [b"", b"nonsense", b"-5", b"\xff" * 21, b"99"])
def test_a_wrong_count_is_put_right(tmp_path, count):
    cache = bounded(tmp_path, 5)
    cache.store(KEY, MAKER, unpredictable(1000))
    with open(tmp_path / "size", "wb") as file:
        file.write(count)
    cache.store(OTHER, MAKER, unpredictable(1000))
    assert int((tmp_path / "size").read_bytes()) == cache.info().nbytes
    assert cache.info().entries == 2


def test_a_count_that_is_too_high_evicts_nothing(tmp_path):
    cache = bounded(tmp_path, 5)
    for _ in range(20):
        cache.store(KEY, MAKER, unpredictable(1000))
        cache.store(OTHER, MAKER, unpredictable(1000))
    assert cache.info().entries == 2


def test_files_of_others_are_left_alone(tmp_path):
    (tmp_path / "notes.txt").write_bytes(b"x" * 5000)
    cache = bounded(tmp_path, 3)
    for key in keys(10):
        cache.store(key, MAKER, unpredictable(1000))
    cache.clear()
    assert (tmp_path / "notes.txt").exists()


def test_clearing_leaves_an_entry_that_is_being_written(cache, monkeypatch):
    replace = os.replace

    def cleared_meanwhile(*names):
        cache.clear()
        replace(*names)

    monkeypatch.setattr(os, "replace", cleared_meanwhile)
    cache.store(KEY, MAKER, PAYLOAD)
    assert cache.load(KEY, MAKER) == PAYLOAD and cache.writable


def test_a_forked_process_does_not_hold_the_lock(cache):
    with cache._open_locked() as descriptor:
        copy = os.dup(descriptor)  # what a fork makes
    try:
        with open(os.path.join(cache.directory, "size"), "rb") as free:
            fcntl.flock(free, fcntl.LOCK_EX | fcntl.LOCK_NB)
    finally:
        os.close(copy)


def test_a_stopped_process_holds_nobody_up(cache):
    """One wait is enough to learn that it is stopped; none follows, and nothing is lost of the
    count: what cannot be counted is not kept."""
    cache._lock_seconds = 0.05
    cache.store(KEY, MAKER, PAYLOAD)
    with open(os.path.join(cache.directory, "size"), "r+b") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.warns(RuntimeWarning, match="may be stopped") as caught:
            cache.store(OTHER, MAKER, PAYLOAD)
        began = time.monotonic()
        for _ in range(50):
            cache.store(OTHER, MAKER, PAYLOAD)
        assert time.monotonic() - began < 1.0 and len(caught) == 1
        assert cache.load(OTHER, MAKER) is None and cache.load(KEY, MAKER) == PAYLOAD
    cache.store(OTHER, MAKER, PAYLOAD)
    assert cache.load(OTHER, MAKER) == PAYLOAD
    with open(os.path.join(cache.directory, "size"), "rb") as counted:
        assert int(counted.read()) == cache.info().nbytes


# ---- several at once -----------------------------------------------------------------------------

FILLING = """
import os, sys, time
from weft.runtime.backends.disk_cache import ProgramCache

directory, number = sys.argv[1], int(sys.argv[2])
cache = ProgramCache(directory, 1 << 24)
print("ready", flush=True)
sys.stdin.readline()
for i in range(30):
    cache.store(f"{number:032d}{i:032d}", "maker", b"%d" % number * 500)
    cache.store(f"{'f' * 32}{i:032d}", "maker", b"shared" * 500)
    assert cache.load(f"{number:032d}{i:032d}", "maker") == b"%d" % number * 500
"""


def test_eight_processes_at_once_lose_nothing(cache):
    arguments = [[sys.executable, "-c", FILLING, cache.directory, str(i)] for i in range(8)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    running = [subprocess.Popen(each, **pipes) for each in arguments]
    for process in running:
        assert process.stdout.readline() == "ready\n"
    for process in running:
        process.stdin.write("\n")
        process.stdin.flush()
    for process in running:
        process.communicate(timeout=60)
        assert process.returncode == 0
    for i in range(30):
        assert cache.load(f"{'f' * 32}{i:032d}", "maker") == b"shared" * 500
        for number in range(8):
            assert cache.load(f"{number:032d}{i:032d}", "maker") == b"%d" % number * 500
    info = cache.info()
    assert info.entries == 270 and len(os.listdir(cache.directory)) == 271
    with open(os.path.join(cache.directory, "size"), "rb") as file:
        assert int(file.read()) >= info.nbytes  # shared ones were counted by each who wrote them


def test_eight_threads_at_once_keep_to_the_bound(tmp_path):
    cache = bounded(tmp_path, 20)

    def fill(number):
        for i in range(20):
            cache.store(f"{number:032d}{i:032d}", MAKER, unpredictable(1000))

    together(fill, 8)
    info = cache.info()
    assert 10 <= info.entries and info.nbytes <= cache.max_bytes


# ---- the directory -------------------------------------------------------------------------------


def opened(path):
    with config.override(cache_dir=str(path)):
        return disk_cache.current()


def test_a_directory_is_made_and_closed_to_others(tmp_path):
    before = os.umask(0)
    try:
        cache = opened(tmp_path / "deep" / "cache")
    finally:
        os.umask(before)
    assert cache.directory == str(tmp_path / "deep" / "cache" / "programs")
    for made in (tmp_path / "deep" / "cache", tmp_path / "deep" / "cache" / "programs"):
        assert stat.S_IMODE(os.stat(made).st_mode) == 0o700
    assert opened(tmp_path / "deep" / "cache") is cache


@pytest.mark.parametrize(
    ("inner", "mode"),
    [("", 0o777), ("", 0o770), ("", 0o702), ("", 0o1777), ("programs", 0o750), ("programs", 0o701)],
)
def test_a_directory_that_is_open_to_others_is_refused(tmp_path, inner, mode):
    directory = tmp_path / "cache"
    (directory / "programs").mkdir(parents=True, mode=0o700)
    directory.chmod(0o700)
    (directory / inner).chmod(mode)
    with pytest.warns(RuntimeWarning, match="not kept between processes") as caught:
        assert opened(directory) is None
    assert opened(directory) is None  # without a second warning
    # The warning says what mends it.
    command = str(caught[0].message).partition("close it with: ")[2].splitlines()[0]
    subprocess.run(command.split(), check=True)
    disk_cache._opened.clear()
    assert opened(directory) is not None


def test_a_directory_that_others_can_read_is_closed_inside(tmp_path):
    tmp_path.chmod(0o755)
    cache = opened(tmp_path)
    assert stat.S_IMODE(os.stat(cache.directory).st_mode) == 0o700


def test_a_directory_of_another_user_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    with pytest.warns(RuntimeWarning, match="belongs to another user"):
        assert opened(tmp_path) is None


def test_a_link_is_followed_to_where_it_leads(tmp_path):
    (tmp_path / "large").mkdir(mode=0o700)
    (tmp_path / "link").symlink_to(tmp_path / "large")
    assert opened(tmp_path / "link").directory == str(tmp_path / "large" / "programs")
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    (tmp_path / "another").symlink_to(tmp_path / "open")
    with pytest.warns(RuntimeWarning, match="can be written by others"):
        assert opened(tmp_path / "another") is None


def test_a_link_inside_is_refused(tmp_path):
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    (tmp_path / "cache").mkdir(mode=0o700)
    (tmp_path / "cache" / "programs").symlink_to(tmp_path / "elsewhere")
    with pytest.warns(RuntimeWarning, match="is not a directory"):
        assert opened(tmp_path / "cache") is None


def test_a_file_in_place_of_the_directory(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.warns(RuntimeWarning, match="not kept between processes"):
        assert opened(tmp_path / "file") is None


def test_a_home_that_cannot_be_written(tmp_path, monkeypatch):
    def closed(*_, **__):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "makedirs", closed)
    with pytest.warns(RuntimeWarning, match="Permission denied"):
        assert opened(tmp_path / "home" / ".cache" / "weft") is None


def test_an_empty_setting_switches_it_off(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    assert opened("") is None
    with config.override(cache_dir=""):
        assert disk_cache.program_cache_info().directory is None
        disk_cache.clear_program_cache()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have other conventions")
def test_the_users_own_directory(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    assert disk_cache.default_directory() == str(tmp_path / "home" / ".cache" / "weft")
    monkeypatch.setenv("XDG_CACHE_HOME", "relative/is/ignored")
    assert disk_cache.default_directory() == str(tmp_path / "home" / ".cache" / "weft")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert disk_cache.default_directory() == str(tmp_path / "xdg" / "weft")
    with config.override(cache_dir=None):
        assert disk_cache.current().directory == str(tmp_path / "xdg" / "weft" / "programs")


# ---- settings ------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", ["1000", 10.5, True, -1, None])
def test_a_bound_is_a_whole_number(value):
    with pytest.raises(TypeError, match="cache_max_bytes"), config.override(cache_max_bytes=value):
        pass


def test_a_directory_is_a_text():
    with pytest.raises(TypeError, match="cache_dir"), config.override(cache_dir=3):
        pass


def test_settings_from_the_environment(monkeypatch):
    monkeypatch.setenv("WEFT_CACHE_DIR", "")
    monkeypatch.setenv("WEFT_CACHE_MAX_BYTES", "12345")
    found = config._from_environment(config.HostSettings)
    assert found.cache_dir == "" and found.cache_max_bytes == 12345
    monkeypatch.setenv("WEFT_CACHE_MAX_BYTES", "2 GiB")
    with pytest.raises(ValueError, match="whole number"):
        config._from_environment(config.HostSettings)
    monkeypatch.delenv("WEFT_CACHE_DIR")
    monkeypatch.delenv("WEFT_CACHE_MAX_BYTES")
    assert config._from_environment(config.HostSettings).cache_dir is None
