"""The files of docs/install.md: the Dockerfile's instructions, what it copies, environment.yml."""

from __future__ import annotations

import ast
import fnmatch
import re
import shutil
import subprocess
import tomllib

import pytest

import weft
from source_files import ROOT

DOCKERFILE = (ROOT / "Dockerfile").read_text(encoding="utf-8")
IGNORED = (ROOT / ".dockerignore").read_text(encoding="utf-8")
ENVIRONMENT = (ROOT / "environment.yml").read_text(encoding="utf-8")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
KNOWN = {"ARG", "FROM", "RUN", "WORKDIR", "COPY", "ENV", "USER", "CMD"}


def instructions(text):
    """(name, rest) of each instruction, without comments and with continued lines joined."""
    text = re.sub(r"(?m)^\s*#.*\n", "", text).replace("\\\n", " ")
    return [tuple(line.split(maxsplit=1)) for line in text.splitlines() if line.strip()]


def copied(text):
    """What is copied from the project's folder."""
    for name, rest in instructions(text):
        if name == "COPY" and not rest.startswith("--from"):
            *sources, _ = rest.split()
            yield from sources


def is_sent(path, ignored):
    """Whether Docker gets a path, by the last pattern that it or a folder of it matches."""
    sent = True
    for line in ignored.splitlines():
        if line.strip() and not line.startswith("#"):
            pattern = line.removeprefix("!")
            names = [path] if "/" not in path else [path, path.partition("/")[0]]
            names += [path.rpartition("/")[2]] * pattern.startswith("**/")
            if any(fnmatch.fnmatch(name, pattern.removeprefix("**/")) for name in names):
                sent = line.startswith("!")
    return sent


def faults(text):
    """What is wrong with a Dockerfile."""
    found = instructions(text)
    arguments = dict(rest.split("=", 1) for name, rest in found if name == "ARG" and "=" in rest)
    if unknown := {name for name, _ in found} - KNOWN:
        yield f"not among {sorted(KNOWN)}: {sorted(unknown)}"
    for name, rest in found:
        image = re.sub(r"\$\{(\w+)\}", lambda m: arguments.get(m[1], ""), rest.split()[0])
        if name == "FROM" and not re.fullmatch(r"python:\d+\.\d+\.\d+-slim-\w+", image):
            yield f"{image}: no release of Python"
        if name == "RUN" and "apt-get install" in rest and (
            "apt-get update &&" not in " ".join(rest.split())
            or "--no-install-recommends" not in rest
            or "rm -rf /var/lib/apt/lists" not in rest
        ):  # fmt: skip
            yield "apt-get: no update in the same layer, or more than what is named stays"
        if name == "RUN" and "pip install" in rest and "--no-cache-dir" not in rest:
            yield "pip: its cache stays in the layer"
        if name == "RUN" and re.search(r"\bsudo\b|curl|wget", rest):
            yield f"RUN {rest}"
        if name == "CMD":
            try:
                ast.literal_eval(rest)
            except SyntaxError:
                yield "CMD: no list, so that a shell stands between Docker and the program"
    final = found[max(i for i, (name, _) in enumerate(found) if name == "FROM") :]
    users = [rest for name, rest in final if name == "USER"]
    if not users or users[-1] in ("root", "0"):
        yield "the program runs as root"


@pytest.mark.fast
def test_the_dockerfile_keeps_to_the_rules():
    assert list(faults(DOCKERFILE)) == []


@pytest.mark.fast
@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("USER weft", ""),
        ("USER weft", "USER root"),
        ("ARG PYTHON=3.11.11", "ARG PYTHON=3"),
        ("python:${PYTHON}-slim-bookworm AS build", "python:latest AS build"),
        ("&& rm -rf /var/lib/apt/lists/*", ""),
        ("--no-cache-dir --requirement", "--requirement"),
        ('CMD ["python"', "CMD python"),
        ("WORKDIR /source", "ADD . /source"),
    ],
)
def test_a_broken_rule_is_found(old, new):
    assert old in DOCKERFILE and list(faults(DOCKERFILE.replace(old, new)))


@pytest.mark.fast
def test_what_is_copied_is_there_and_sent_and_suffices():
    sources = set(copied(DOCKERFILE))
    assert {
        s for s in sources if not (ROOT / s).exists() or not is_sent(s.strip("/"), IGNORED)
    } == set()
    project = PROJECT["project"]
    needed = {"pyproject.toml", "weft/", project["readme"], *project["license-files"]}
    assert needed <= sources
    for module in PROJECT["tool"]["setuptools"]["ext-modules"]:
        assert all(is_sent(s, IGNORED) for s in module["sources"] + module["depends"])
    # Neither the history nor what was built for another machine.
    left = ["tests", ".git", ".venv", "out", "weft/native/_calls.cpython-311-x86_64-linux-gnu.so"]
    assert not any(is_sent(path, IGNORED) for path in left)


@pytest.mark.fast
def test_the_images_python_is_supported():
    version = re.search(r"ARG PYTHON=(\d+)\.(\d+)\.", DOCKERFILE).groups()
    least, below = re.fullmatch(
        r">=3\.(\d+),<3\.(\d+)", PROJECT["project"]["requires-python"]
    ).groups()
    assert version[0] == "3" and int(least) <= int(version[1]) < int(below)


def entries(text):
    """{key: value or list} of the part of YAML that environment.yml uses, or `ValueError`."""
    found, items, inner = {}, None, None
    for line in text.splitlines():
        if re.fullmatch(r"\s*(#.*)?", line):
            continue
        if match := re.fullmatch(r"(\w+):(?: (\S.*))?", line):
            items = found[match[1]] = match[2] or []
        elif (match := re.fullmatch(r"  - (\w+):", line)) and isinstance(items, list):
            inner = []
            items.append({match[1]: inner})
        elif (match := re.fullmatch(r"  - ([^\s:]+)", line)) and isinstance(items, list):
            items.append(match[1])
        elif (match := re.fullmatch(r"      - ([^:#]+)", line)) and inner is not None:
            inner.append(match[1])
        else:
            raise ValueError(line)
    return found


@pytest.mark.fast
def test_the_environment_of_conda():
    found = entries(ENVIRONMENT)
    assert set(found) == {"name", "channels", "dependencies"} and found["name"] == "weft"
    *packages, pip = found["dependencies"]
    # conda wants pip named where its packages are, and runs it in the folder of the file.
    assert packages == ["python=3.11", "pip", "c-compiler"]
    assert pip == {"pip": ["-r requirements/run.txt", "-e ."]}
    assert (ROOT / "requirements" / "run.txt").exists()


@pytest.mark.fast
@pytest.mark.parametrize(
    ("old", "new"), [("  - pip:", " - pip:"), ("name: weft", "name weft"), ("      - -e", "\t- -e")]
)
def test_broken_syntax_is_found(old, new):
    with pytest.raises(ValueError, match=re.escape(new)):
        entries(ENVIRONMENT.replace(old, new))


@pytest.mark.fast
def test_the_plugins_are_pinned_to_jaxlibs_release():
    text = (ROOT / "requirements" / "constraints.txt").read_text(encoding="utf-8")
    pins = dict(re.findall(r"^(\S+)==(\S+)$", text, re.MULTILINE))
    plugins = {f"jax-cuda{n}-{part}" for n in (12, 13) for part in ("pjrt", "plugin")}
    assert {pins[name] for name in plugins} == {pins["jaxlib"]}


@pytest.mark.skipif(shutil.which("hadolint") is None, reason="hadolint is not installed")
def test_hadolint_finds_nothing():
    done = subprocess.run(
        ["hadolint", str(ROOT / "Dockerfile")], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout


def docker_runs():
    if shutil.which("docker") is None:
        return False
    return subprocess.run(["docker", "info"], capture_output=True, check=False).returncode == 0


@pytest.mark.slow
def test_the_image_is_built_and_runs():
    if not docker_runs():
        pytest.skip("no Docker service runs on this machine")
    build = ["docker", "build", "--quiet", "--tag", "weft-test", str(ROOT)]
    subprocess.run(build, check=True)
    run = ["docker", "run", "--rm", "weft-test"]
    assert (
        weft.__version__ in subprocess.run(run, capture_output=True, text=True, check=True).stdout
    )
    user = subprocess.run([*run, "id", "-u"], capture_output=True, text=True, check=True).stdout
    assert user.strip() == "1000"
