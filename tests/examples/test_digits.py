"""The digits example: it reaches its accuracy, draws its picture, and refuses malformed files."""

from __future__ import annotations

import importlib.util
import re
import sys

import numpy as np
import pytest

import weft
from source_files import ROOT

EXAMPLE = ROOT / "examples" / "digits.py"


@pytest.fixture(scope="module")
def digits():
    spec = importlib.util.spec_from_file_location("digits", EXAMPLE)
    module = importlib.util.module_from_spec(spec)
    sys.modules["digits"] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules["digits"]


@pytest.mark.smoke
def test_the_network_learns_the_digits(digits, tmp_path, capsys):
    picture = tmp_path / "out" / "digits.png"
    assert digits.main(["--output", str(picture), "--seed", "1"]) == 0
    shown = capsys.readouterr().out
    accuracy = float(re.search(r"accuracy on held-out examples: ([\d.]+) %", shown)[1])
    assert accuracy >= 96
    assert "{ lambda ;" in shown and "dot_general" in shown
    assert float(re.search(r"largest eigenvalue of the Hessian\): ([\d.]+)", shown)[1]) > 0
    assert len(re.findall(r"example +\d+: is \d", shown)) == 8
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_training_over_eight_devices_is_training_on_one(digits):
    data = digits.load(None, seed=2)
    mesh = weft.make_mesh((8,), ("data",))
    (params, curve), (params_on_8, curve_on_8) = (
        digits.train(data, 6, 2, 64, show=False, mesh=mesh) for mesh in (None, mesh)
    )
    np.testing.assert_allclose(curve_on_8, curve, rtol=1e-4)
    for on_1, on_8 in zip(*map(weft.tree.leaves, (params, params_on_8)), strict=True):
        assert len(on_8.addressable_shards) == 8 and on_8.is_fully_replicated
        np.testing.assert_allclose(on_8, on_1, atol=2e-3)


def test_the_program_over_eight_devices(digits, tmp_path, capsys):
    options = ["--output", str(tmp_path / "x.png"), "--seed", "1", "--epochs", "20"]
    shares = []
    for more in ([], ["--devices", "8"]):
        assert digits.main(options + more) == 0
        shown = capsys.readouterr().out
        shares.append(float(re.search(r"held-out examples: ([\d.]+) %", shown)[1]))
    assert shares[0] > 95
    # At most two of the 360 held-out examples may fall on the other side by rounding.
    assert abs(shares[0] - shares[1]) < 0.6
    gradient = shown[shown.index("shard_map[") : shown.index("where the arrays lie")]
    # The gradient takes one sum over the devices for each of the six parameters, on types that
    # vary; the loss itself takes one, and so does the share of the weight decay in each part.
    assert 6 <= gradient.count("= psum[") <= 8
    assert "f32[8,64]{data}" in gradient
    assert re.search(r"\['batch'\]\[0\] +float32 \(64, 64\) +P\('data'\)", shown)
    assert re.search(r"\['params'\]\[2\]\['w'\] +float32 \(64, 10\) +P\(\)", shown)
    assert "16:24 │  CPU 2  │" in shown and "CPU 0,1,2,3,4,5,6,7" in shown


def test_a_batch_that_is_no_multiple_of_the_devices(digits, tmp_path, capsys):
    data = digits.load(None, seed=0)
    assert digits.batch_size(data, 64, 1) == digits.batch_size(data, 70, 8) == 64
    assert digits.batch_size(data, 5000, 4) == 1436
    output = ["--output", str(tmp_path / "x.png")]
    assert digits.main(["--batch", "7", "--devices", "8", *output]) == 2
    assert "a batch of 7 cannot be split over 8 devices" in capsys.readouterr().err
    assert digits.main(["--devices", "16", *output]) == 2
    assert "WEFT_NUM_CPU_DEVICES=16" in capsys.readouterr().err


def test_a_file_of_ones_own(digits, tmp_path, capsys):
    generator = np.random.default_rng(0)
    labels = np.arange(90) % 3
    features = generator.normal(size=(90, 4)) + 3 * np.eye(4)[labels]
    rows = ["a,b,c,d,label"] + [
        ",".join(f"{v:.4f}" for v in x) + f",{y}" for x, y in zip(features, labels, strict=True)
    ]
    path = tmp_path / "mine.csv"
    path.write_text("\n".join(rows))
    output = tmp_path / "mine.png"
    assert digits.main(["--csv", str(path), "--epochs", "30", "--output", str(output)]) == 0
    shown = capsys.readouterr().out
    assert "72 examples to train on, 18 held out, 4 features, 3 classes" in shown
    assert float(re.search(r"held-out examples: ([\d.]+) %", shown)[1]) >= 80
    assert output.exists()


GOOD = "\n".join(f"{i},{i + 1},{i % 2}" for i in range(12))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (GOOD + "\n1,x,0", r"row 13, column 2: 'x' is no number"),
        (GOOD + "\n1,2,3,0", r"row 13: 4 columns where the first row has 3"),
        (GOOD + "\n1,nan,0", r"row 13: a value is not finite"),
        (GOOD + "\n1,2,0.5", r"row 13: the label '0.5' is not a whole number from 0 up"),
        (GOOD + "\n1,2,-1", r"row 13: the label '-1' is not a whole number from 0 up"),
        ("1,2,0\n3,4,1", r"2 rows of data; at least 10 are needed"),
        ("1\n2\n3", r"row 1: a row needs features and a label"),
        ("\n".join(f"{i},{i + 1},0" for i in range(12)), r"all rows have the label 0"),
        ("", r"0 rows of data"),
    ],
)
def test_malformed_files_are_refused_with_the_row(digits, tmp_path, capsys, text, message):
    path = tmp_path / "bad.csv"
    path.write_text(text)
    assert digits.main(["--csv", str(path)]) == 2
    assert re.search(message, capsys.readouterr().err)


def test_a_missing_file_is_refused(digits, tmp_path, capsys):
    assert digits.main(["--csv", str(tmp_path / "none.csv")]) == 2
    assert "cannot be read" in capsys.readouterr().err


@pytest.mark.parametrize("option", [["--epochs", "0"], ["--batch", "x"], ["--unknown"]])
def test_malformed_options_are_refused(digits, option, capsys):
    with pytest.raises(SystemExit) as stopped:
        digits.main(option)
    assert stopped.value.code == 2
    assert "error" in capsys.readouterr().err
