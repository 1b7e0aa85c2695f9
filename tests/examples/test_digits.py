"""The demo: it learns the digits and tables of one's own as well as scikit-learn does, draws its
picture, and says in one line what it cannot use. `test_reading.py` has the forms of files."""

from __future__ import annotations

import argparse
import csv
import importlib
import io
import re
import sys

import numpy as np
import pytest

import weft
import weft.numpy as jnp
from source_files import ROOT

EXAMPLE = ROOT / "examples" / "digits.py"


@pytest.fixture(scope="module")
def digits():
    sys.path.insert(0, str(EXAMPLE.parent))
    yield importlib.import_module("digits")
    sys.path.remove(str(EXAMPLE.parent))


def options(**given):
    return argparse.Namespace(**{"batch": None, "epochs": None, "devices": None, **given})


def result(shown):
    """The share of held-out examples that were right, from the last line."""
    last = shown.splitlines()[-1]
    found = re.fullmatch(
        r"result: (\d+) of (\d+) held-out examples right \((.*) %\); picture: .*", last
    )
    share = 100 * int(found[1]) / int(found[2])
    assert float(found[3]) == pytest.approx(share, abs=0.006)
    return share


@pytest.mark.smoke
def test_the_network_learns_the_digits(digits, tmp_path, capsys):
    picture = tmp_path / "out" / "digits.png"
    assert digits.main(["--output", str(picture), "--seed", "1", "--epochs", "40"]) == 0
    shown = capsys.readouterr().out
    assert result(shown) >= 96
    assert "{ lambda" not in shown
    assert float(re.search(r"largest eigenvalue of the Hessian\): ([\d.]+)", shown)[1]) > 0
    assert len(re.findall(r"digit +\d+: truth \d, answer \d, norm", shown)) == 8
    assert len(re.findall(r"(?m)^  \d +3[5-7] +\d+ +\d+ % +\d+ %", shown)) == 10
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_training_over_eight_devices_is_training_on_one(digits):
    data = digits.split(digits.digits_table(), seed=2)
    mesh = weft.make_mesh((8,), ("data",))
    schedule = digits.Schedule(64, 6, 6)
    on_1, on_8 = (digits.train(data, 10, schedule, 2, False, mesh) for mesh in (None, mesh))
    np.testing.assert_allclose(on_8.training, on_1.training, rtol=1e-4)
    np.testing.assert_allclose(on_8.validation, on_1.validation, rtol=1e-4)
    for one, eight in zip(*(weft.tree.leaves(t.params) for t in (on_1, on_8)), strict=True):
        assert len(eight.addressable_shards) == 8 and eight.is_fully_replicated
        np.testing.assert_allclose(eight, one, atol=2e-3)


def test_the_program_over_eight_devices(digits, tmp_path, capsys):
    given = ["--output", str(tmp_path / "x.svg"), "--seed", "1", "--epochs", "20", "--show-jaxpr"]
    shares = []
    for more in ([], ["--devices", "8"]):
        assert digits.main(given + more) == 0
        shown = capsys.readouterr().out
        assert "{ lambda ;" in shown and "dot_general" in shown
        shares.append(result(shown))
    assert shares[0] > 95
    # At most two of the 359 held-out examples may fall on the other side by rounding.
    assert abs(shares[0] - shares[1]) < 0.6
    gradient = shown[shown.index("shard_map[") : shown.index("where the arrays lie")]
    # One sum over the devices for each of the six parameters, on types that vary, and one for the
    # loss.
    assert gradient.count("= psum[") == 7 and "f32[8,64]{data}" in gradient
    assert re.search(r"\['batch'\]\[0\] +float32 \(64, 64\) +P\('data'\)", shown)
    assert re.search(r"\['params'\]\[2\]\['w'\] +float32 \(64, 10\) +P\(\)", shown)
    assert "16:24 │  CPU 2  │" in shown and "CPU 0,1,2,3,4,5,6,7" in shown


# ---- tables of one's own -----------------------------------------------------------------------


def write_set(path, name):
    """One of scikit-learn's data sets as a CSV file with a header."""
    datasets = pytest.importorskip("sklearn.datasets")
    found = getattr(datasets, f"load_{name}")()
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow([*found.feature_names, "class"])
        writer.writerows(
            [*x, found.target_names[y]] for x, y in zip(found.data, found.target, strict=True)
        )


@pytest.mark.parametrize(("name", "seeds"), [("iris", 8), ("wine", 4), ("breast_cancer", 4)])
def test_tables_are_learned_as_by_scikit_learn(digits, tmp_path, name, seeds):
    linear_model = pytest.importorskip("sklearn.linear_model")
    path = tmp_path / f"{name}.csv"
    write_set(path, name)
    table = digits.read_table(path)
    found, wanted = [], []
    for seed in range(seeds):
        data = digits.split(table, seed)
        schedule = digits.schedule_for(data, options())
        trained = digits.train(data, len(table.classes), schedule, seed, show=False)
        answers = jnp.argmax(digits.predict(trained.params, data.test.x), axis=-1)
        found.append(np.mean(np.asarray(answers) == data.test.y))
        model = linear_model.LogisticRegression(max_iter=1000).fit(data.train.x, data.train.y)
        wanted.append(model.score(data.test.x, data.test.y))
    # Of one seed's 30 held-out flowers each is 3 %, so what counts is the mean of several.
    assert np.mean(found) >= 0.93 and np.mean(found) >= np.mean(wanted) - 0.03
    assert min(found) > 0.8


def test_a_file_of_ones_own(digits, tmp_path, capsys, monkeypatch):
    write_set(tmp_path / "iris.csv", "iris")
    monkeypatch.chdir(tmp_path)
    assert digits.main(["--data", "iris.csv", "--label", "class"]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("iris.csv: 150 rows, columns separated by commas, header in line 1")
    assert "96 examples to train on, 24 to choose the epoch by, 30 held out" in shown
    assert "features: 4, classes: 3, examples per step: 8" in shown
    assert "kept: the parameters of epoch" in shown
    assert len(re.findall(r"(?m)^  (?:setosa|versicolor|virginica) +10 +\d+ +\d+ %", shown)) == 3
    assert "the answer setosa to everything would be right in 33.3 %" in shown
    assert len(re.findall(r"line +\d+: truth [a-z]+, answer [a-z]+, norm", shown)) == 8
    assert result(shown) >= 90 and shown.rstrip().endswith("picture: out/iris.png")
    assert (tmp_path / "out" / "iris.png").exists()


def test_hard_tables_are_drawn_too(digits, tmp_path, capsys):
    """Names that look like formulas, 40 classes, one feature and a constant one, huge values."""
    classes = np.random.default_rng(0).permutation(200) % 40
    content = "".join(f"{1e38 * i};7;$\\frac{{ {i}_^\n" for i in classes)
    path, output = tmp_path / "hard.csv", tmp_path / "hard.pdf"
    path.write_text(content)
    # The largest of these is beyond 32-bit floats.
    assert digits.main(["--data", str(path), "--output", str(output)]) == 2
    assert "wanted: a number between -3.4e+38 and 3.4e+38" in capsys.readouterr().err
    path.write_text(content.replace("e+38", "e+30").replace("e+39", "e+31"))
    assert digits.main(["--data", str(path), "--output", str(output), "--epochs", "3"]) == 0
    shown = capsys.readouterr().out
    assert "note: column 2 has the same value in every row" in shown
    assert "… and 20 classes of no lower recall" in shown
    assert output.read_bytes().startswith(b"%PDF")


def test_parts_of_a_table(digits):
    table = digits.digits_table()
    data = digits.split(table, 3)
    rows = np.concatenate([part.rows for part in data])
    np.testing.assert_array_equal(np.sort(rows), np.arange(1797))
    for part in data:
        # Each part has all classes, in shares that are those of the whole.
        shares = np.bincount(part.y, minlength=10) / len(part.y)
        np.testing.assert_allclose(shares, np.bincount(table.labels) / 1797, atol=0.01)
    x = data.train.x
    np.testing.assert_allclose(x.mean(axis=0), 0, atol=1e-5)
    # Some pixels are blank in all digits; none is divided by zero.
    deviations = x.std(axis=0)
    assert set(np.round(deviations, 4)) == {0, 1} and np.isfinite(data.test.x).all()
    same, other = digits.split(table, 3), digits.split(table, 4)
    np.testing.assert_array_equal(same.test.rows, data.test.rows)
    assert set(other.test.rows) != set(data.test.rows)


def test_features_of_every_size_are_standardised(digits):
    data = importlib.import_module("demo.data")
    x = np.random.default_rng(0).normal(size=(50, 1)) * 10.0 ** np.array([-300, -5, 0, 30, 300])
    x = np.concatenate([x, np.full((50, 1), 0.1)], axis=1)
    scaled = data.standardised(x, np.arange(50))
    np.testing.assert_allclose(scaled[:, :5], np.repeat(scaled[:, 2:3], 5, axis=1), rtol=1e-5)
    np.testing.assert_allclose(scaled.std(axis=0), [1, 1, 1, 1, 1, 0], atol=1e-6)


def test_only_pictures_are_drawn_as_pictures(digits):
    table = digits.digits_table()
    assert digits.image_side(table) == 8
    for features in (table.features[:, :4], table.features[:, :63], table.features - 0.5):
        assert digits.image_side(table._replace(features=features)) is None


@pytest.mark.parametrize(
    ("rows", "batch"), [(6, 8), (96, 8), (370, 16), (1169, 64), (130_000, 256), (10**7, 1024)]
)
def test_steps_suit_the_number_of_rows(digits, rows, batch):
    assert importlib.import_module("demo.data").batch_for(rows) == batch


def test_a_batch_that_is_no_multiple_of_the_devices(digits, tmp_path, capsys):
    data = digits.split(digits.digits_table(), seed=0)

    def batch(**given):
        return digits.schedule_for(data, options(**given)).batch

    assert batch() == batch(batch=64) == batch(batch=70, devices=8) == 64
    assert batch(batch=5000, devices=4) == 1168 and batch(devices=100) == 100
    output = ["--output", str(tmp_path / "x.png")]
    assert digits.main(["--batch", "7", "--devices", "8", *output]) == 2
    assert "a batch of 7 cannot be split over 8 devices" in capsys.readouterr().err
    assert digits.main(["--devices", "16", *output]) == 2
    assert "WEFT_NUM_CPU_DEVICES=16" in capsys.readouterr().err


# ---- what cannot be done -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["--epochs", "0"], "--epochs: '0'; wanted: a whole number from 1 to"),
        (["--batch", "x"], "--batch: 'x'; wanted: a whole number from 1 to"),
        (["--seed", "-1"], "--seed: '-1'; wanted: a whole number from 0 to 4294967294"),
        (["--seed", "9" * 30], "wanted: a whole number from 0 to"),
        (["--devices", "1.5"], "--devices: '1.5'; wanted"),
        (["--unknown"], "unrecognized arguments: --unknown"),
    ],
)
def test_malformed_options_are_refused_in_one_line(digits, given, message, capsys):
    with pytest.raises(SystemExit) as stopped:
        digits.main(given)
    assert stopped.value.code == 2
    shown = capsys.readouterr()
    assert message in shown.err and shown.err.startswith("error: ")
    assert len(shown.err.splitlines()) == 1 and shown.out == ""


@pytest.mark.parametrize(
    ("output", "message"),
    [
        ("file/x.png", "is no folder; wanted: a file in a folder of your own"),
        ("folder.png", "Is a directory; wanted: a file"),
        ("x.gif", "wanted: a name that ends in .png, .pdf, .svg"),
    ],
)
def test_a_picture_that_cannot_be_written_stops_before_the_work(
    digits, tmp_path, capsys, monkeypatch, output, message
):
    (tmp_path / "file").touch()
    (tmp_path / "folder.png").mkdir()
    monkeypatch.setattr(digits, "train", None)  # not reached
    assert digits.main(["--output", str(tmp_path / output)]) == 2
    shown = capsys.readouterr()
    assert message in shown.err and len(shown.err.splitlines()) == 1 and shown.out == ""


def test_a_picture_of_before_is_kept_where_the_data_is_bad(digits, tmp_path, capsys):
    output = tmp_path / "x.png"
    for before in (None, b"before"):
        if before:
            output.write_bytes(before)
        assert digits.main(["--csv", str(tmp_path / "none.csv"), "--output", str(output)]) == 2
        assert "cannot be read: No such file" in capsys.readouterr().err
        assert (output.read_bytes() if before else output.exists()) == (before or False)


@pytest.mark.parametrize("given", [["--label", "kind"], ["--drop", "1"]])
def test_options_of_a_file_need_one(digits, tmp_path, capsys, given):
    assert digits.main([*given, "--output", str(tmp_path / "x.png")]) == 2
    assert "wanted: --data FILE too" in capsys.readouterr().err


def test_an_interrupt_ends_quietly(digits, tmp_path, capsys, monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(digits, "train", interrupted)
    assert digits.main(["--output", str(tmp_path / "x.png")]) == 130
    assert "stopped" in capsys.readouterr().err


def test_a_terminal_that_cannot_show_a_name(digits, tmp_path, monkeypatch):
    stream = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    monkeypatch.setattr(sys, "stderr", stream)
    given = ["--data", str(tmp_path / "größe.csv"), "--output", str(tmp_path / "x.png")]
    assert digits.main(given) == 2
    stream.flush()
    assert b"gr??e.csv cannot be read" in stream.buffer.getvalue()


def test_the_page_lists_the_options(digits, capsys):
    page = (ROOT / "docs" / "demo.md").read_text(encoding="utf-8")
    with pytest.raises(SystemExit):
        digits.main(["--help"])
    there = set(re.findall(r"(?m)^  (?:-h, )?(--[\w-]+)", capsys.readouterr().out)) - {"--help"}
    assert there == set(re.findall(r"(?m)^\| `(--[\w-]+)`", page))
