"""The recipe of a service: it runs without the model's source, and refuses what it cannot use."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPConnection

import numpy as np
import pytest
import scipy.special

from source_files import ROOT

SCRIPT = ROOT / "examples" / "recipes" / "serving.py"


@pytest.fixture(scope="module")
def weights():
    """Gradient descent in NumPy."""
    sklearn_datasets = pytest.importorskip("sklearn.datasets")
    x, y = sklearn_datasets.load_digits(return_X_y=True)
    x, targets = x[:1500], np.eye(10)[y[:1500]]
    found = np.zeros((64, 10))
    for _ in range(300):
        shares = scipy.special.softmax(x @ found, axis=1)
        found -= 0.01 * x.T @ (shares - targets) / len(x)
    return found


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    """The port of a service, whose source has no model: `train` and `exported` are taken out."""
    folder = tmp_path_factory.mktemp("serving")
    program = folder / "digits.weft"
    subprocess.run([sys.executable, SCRIPT, "--export", program], check=True)
    tree = ast.parse(SCRIPT.read_text(encoding="utf-8"))
    tree.body = [n for n in tree.body if getattr(n, "name", "") not in ("train", "exported")]
    script = folder / "service.py"
    script.write_text(ast.unparse(tree), encoding="utf-8")
    assert "softmax" not in script.read_text(encoding="utf-8")
    command = [sys.executable, script, "--serve", program]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        yield int(re.fullmatch(rb"serving at port (\d+)\n", process.stdout.readline())[1])
        process.kill()


def ask(port, body):
    connection = HTTPConnection("127.0.0.1", port, timeout=60)
    connection.request("POST", "/", body)
    response = connection.getresponse()
    assert response.headers["Content-Type"] == "application/json"
    return response.status, json.load(response)


def test_the_weights_are_those_of_numpy(recipe, weights):
    np.testing.assert_allclose(recipe.train(), weights, rtol=1e-3, atol=1e-4)


@pytest.mark.smoke
def test_the_service_answers_as_numpy_does(service, recipe):
    weights = np.asarray(recipe.train(), np.float64)
    pixels = np.random.default_rng(0).integers(17, size=(5, 64))
    for image in pixels:
        status, answer = ask(service, json.dumps({"pixels": image.tolist()}))
        expected = scipy.special.softmax(image @ weights)
        assert status == 200 and answer["class"] == expected.argmax()
        np.testing.assert_allclose(answer["probabilities"], expected, rtol=1e-4, atol=1e-6)


def test_many_ask_at_once(service, recipe):
    weights = np.asarray(recipe.train(), np.float64)
    pixels = np.random.default_rng(1).integers(17, size=(40, 64))
    bodies = [json.dumps({"pixels": image.tolist()}) for image in pixels]
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda body: ask(service, body), bodies))
    assert [answer["class"] for _, answer in answers] == (pixels @ weights).argmax(axis=1).tolist()


@pytest.mark.parametrize("length", ["-5", "many"])
def test_a_length_that_is_none_is_refused(service, length):
    connection = HTTPConnection("127.0.0.1", service, timeout=60)
    connection.request("POST", "/", headers={"Content-Length": length})
    assert connection.getresponse().status == 400


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (b"", "send JSON"),
        (b"pixels", "send JSON"),
        (b"\xff\xfe\xfd", "send JSON"),
        (b"[1, 2]", "send JSON"),
        (b'{"image": []}', "send JSON"),
        (b"[" * 50_000, "send JSON"),
        (b'{"pixels": [[1], [1, 2]]}', "send JSON"),
        (b'{"pixels": [1, 2]}', r"got int64\[2\], wanted \[64\] numbers"),
        (b'{"pixels": 3}', r"got int64\[\]"),
        (json.dumps({"pixels": ["1"] * 64}).encode(), r"got <U1\[64\]"),
        (json.dumps({"pixels": [True] * 64}).encode(), r"got bool\[64\]"),
        (json.dumps({"pixels": [None] * 64}).encode(), r"got object\[64\]"),
        (json.dumps({"pixels": [10**400] * 64}).encode(), r"got object\[64\]"),
        (json.dumps({"pixels": [float("nan")] * 64}).encode(), "below 1e6"),
        (json.dumps({"pixels": [1e300] * 64}).encode(), "below 1e6"),
    ],
)
def test_a_bad_request_is_refused_with_a_reason(service, body, says):
    status, answer = ask(service, body)
    assert status == 400 and list(answer) == ["error"]
    assert re.search(says, answer["error"])
    assert ask(service, json.dumps({"pixels": [0.5] * 64}))[0] == 200
