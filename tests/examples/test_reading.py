"""The reader of the demo: real sets in every form of text, and one line for all that is wrong."""

from __future__ import annotations

import csv
import io
import re
import sys

import numpy as np
import pytest

from source_files import ROOT

sys.path.insert(0, str(ROOT / "examples"))
try:
    from demo import reading, text
finally:
    del sys.path[0]

pytestmark = pytest.mark.fast

NAMES = ("width", "length")
FEATURES = np.round(np.random.default_rng(0).normal(size=(12, 2)) * 1e3, 3)
LABELS = ["rot", "grün", "rot"] * 4
CLASSES = ("grün", "rot")


def written(separator=",", decimal=".", header=True, order=(0, 1, 2), quote=False, end="\n"):
    """FEATURES and LABELS as text, columns in some order."""
    rows = [[f"{v:.3f}".replace(".", decimal) for v in x] for x in FEATURES]
    rows = [[*x, label] for x, label in zip(rows, LABELS, strict=True)]
    rows = [[*NAMES, "colour"]] * header + rows
    out = io.StringIO()
    quoting = csv.QUOTE_ALL if quote else csv.QUOTE_MINIMAL
    writer = csv.writer(out, delimiter=separator, lineterminator=end, quoting=quoting)
    writer.writerows([row[i] for i in order] for row in rows)
    return out.getvalue()


def read(tmp_path, content, label="last", drop=()):
    path = tmp_path / "mine.csv"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return reading.read_table(path, label, drop)


FORMS = {
    "commas": (written(), "last", "commas, header in line 1"),
    "no header": (written(header=False), "last", "commas, no header"),
    "semicolons": (written(";"), "last", "semicolons"),
    "decimal commas": (written(";", ","), "last", "semicolons, decimal commas"),
    "decimal commas in quotes": (written(";", ",", quote=True), "last", "decimal commas"),
    "tabs and decimal commas": (written("\t", ","), "last", "tabs, decimal commas"),
    "tabs": (written("\t"), "last", "tabs"),
    "bars": (written("|"), "last", "bars"),
    "spaces": (written(" ").replace(" ", "   "), "last", "spaces"),
    "quotes": (written(quote=True), "last", "commas"),
    "CRLF": (written(end="\r\n"), "last", "commas"),
    "CR": (written(end="\r"), "last", "commas"),
    "no end of the last line": (written().rstrip(), "last", "commas"),
    "empty lines": ("\n\n" + written().replace("\n", "\n\n") + ",,\n", "last", "in line 3"),
    "spaces around": (written().replace(",", " , "), "last", "commas"),
    "byte-order mark": ("\ufeff" + written(), "colour", "commas"),
    "UTF-16": (written("\t").encode("utf-16"), "colour", "tabs"),
    "label first": (written(order=(2, 0, 1)), "first", "column 1 ('colour')"),
    "label by number": (written(order=(0, 2, 1)), "2", "column 2 ('colour')"),
    "label by name": (written(order=(0, 2, 1)), "colour", "column 2 ('colour')"),
    "numpy.savetxt": ("# " + written(), "last", "header in line 1"),
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_is_the_same_table(tmp_path, form):
    content, label, note = FORMS[form]
    table = read(tmp_path, content, label)
    np.testing.assert_array_equal(table.features, FEATURES)
    assert [table.classes[i] for i in table.labels] == LABELS and table.classes == CLASSES
    assert "12 rows" in table.notes[0] and note in table.notes[0] and len(table.notes) == 1
    assert table.names == (NAMES if "no header" not in form else ("column 1", "column 2"))
    if "lines" not in form:
        np.testing.assert_array_equal(table.lines, np.arange(12) + (form != "no header") + 1)


def rows(label="{0}", count=12):
    """Rows without a header whose labels are made from 0, 1, 0, 1, …"""
    return "".join(f"{i}.5,{i * i},{label.format(i % 2)}\n" for i in range(count))


@pytest.mark.parametrize(
    ("label", "classes"),
    [
        ("{0}", ("0", "1")),
        ("{0}.0", ("0", "1")),
        ("{0}0", ("00", "10")),
        ("-{0}", ("-1", "-0")),
        ("{0}.5", ("0.5", "1.5")),
        ("{0}000000000", ("0000000000", "1000000000")),
        ("1e3{0}", ("1e30", "1e31")),
        ("1234567890123456789{0}", ("12345678901234567890", "12345678901234567891")),
        ("no {0}", ("no 0", "no 1")),
        ('"a, {0}"', ("a, 0", "a, 1")),
        ('"say ""{0}"""', ('say "0"', 'say "1"')),
        ('"two\nlines {0}"', ("two\nlines 0", "two\nlines 1")),
    ],
)
def test_labels_are_numbers_or_names(tmp_path, label, classes):
    table = read(tmp_path, rows(label))
    assert table.classes == classes
    # Where -1 comes before 0, the classes are the other way round.
    wanted = np.arange(12) % 2
    np.testing.assert_array_equal(table.labels, 1 - wanted if label == "-{0}" else wanted)


def test_one_number_written_in_two_ways_is_one_class(tmp_path):
    assert read(tmp_path, rows() + "1,2,1.0\n3,4, 0\n").classes == ("0", "1")


def test_a_header_may_count_its_columns(tmp_path):
    table = read(tmp_path, "0,1,target\n" + rows())
    assert table.names == ("0", "1") and len(table.labels) == 12
    # The column called 1 is not the one that --label 1 means, which is the first.
    assert read(tmp_path, "0,1,target\n" + rows(), drop=["1"]).names == ("1",)


def test_columns_are_left_out_where_that_is_said(tmp_path):
    table = read(tmp_path, "id,sex,size,kind\n" + "".join(
        f"{i},{'fm'[i % 2]},{i * i},{i % 3}\n" for i in range(12)), drop=["id", "2"])  # fmt: skip
    assert table.names == ("size",)
    np.testing.assert_array_equal(table.features[:, 0], np.arange(12) ** 2)


def test_doubts_are_noted(tmp_path):
    header, count = ",a,a,kind\n", 12
    content = header + "".join(f"{i + 7},{i * i},3,{i % 2}\n" for i in range(count))
    _, counting, constant = read(tmp_path, content).notes
    assert re.fullmatch(r"note: column 1 .'unnamed, column 1'. only counts the rows.*", counting)
    assert constant == "note: column 3 ('a, column 3') has the same value in every row"


HEADED = "wide,long,kind\n" + rows()
BAD = {
    "a typo": (HEADED + "1,x,0", "mine.csv, line 14, column 2 ('long'): 'x'; wanted: a number"),
    "a typo without a header": (rows() + "1,2.x,0", "line 13, column 2: '2.x'; wanted: a number"),
    "a typo in the first row": ("5.1,3.x,0\n" + rows(),
        "line 1: '5.1' in column 1 and '3.x' in column 2 are neither a header nor a row"),
    "a typo in the header": ("wide,3,kind\n" + rows(), "'3' in column 2 and 'wide' in co"),
    "text in a feature": ("sex,size,kind\n" + "f,1,0\nm,2,1\n" * 6,
        "line 2, column 1 ('sex'): 'f'; wanted: a number (--label 1 if it holds the labels, "
        "--drop 1 to leave it out)"),
    "too many columns": (rows() + "1,2,3,0", "line 13: 4 columns where line 1 has 3"),
    "too few columns": (HEADED + "1,2", "line 14: 2 columns where line 1 has 3"),
    "an empty cell": (HEADED + "1,,0", "line 14, column 2 ('long'): '', a missing value; wanted:"),
    "a question mark": (HEADED + "?,2,0", "line 14, column 1 ('wide'): '?', a missing value"),
    "NA": (HEADED + "1,NA,0", "line 14, column 2 ('long'): 'NA', a missing value"),
    "nan": (HEADED + "1,NaN,0", "line 14, column 2 ('long'): 'NaN', a missing value"),
    "inf": (HEADED + "-inf,2,0", "line 14, column 1 ('wide'): '-inf'; wanted: a number between"),
    "too large": (HEADED + "1,1e300,0", "line 14, column 2 ('long'): '1e300'; wanted: a number"),
    "beyond float64": (HEADED + "1,1e999,0", "line 14, column 2 ('long'): '1e999'; wanted: a"),
    "underscores": (HEADED + "1,1_000,0", "line 14, column 2 ('long'): '1_000'; wanted: a number"),
    "other digits": (HEADED + "1,٣,0", "line 14, column 2 ('long'): '٣'; wanted: a number"),
    "hexadecimal": (HEADED + "1,0x10,0", "line 14, column 2 ('long'): '0x10'; wanted: a number"),
    "a point among commas": (written(";", ",") + "1.5;2,5;rot",
        "line 14, column 1 ('width'): '1.5'; wanted: a number, with a decimal comma as elsewhere"),
    "a thousands point": (written(";", ",") + "1.000,5;2,5;rot", "column 1 ('width'): '1.000,5'"),
    "a missing label": (HEADED + "1,2,\n", "line 14, column 3 ('kind'): '', a missing label"),
    "a label that is nan": (HEADED + "1,2,nan", "column 3 ('kind'): 'nan', a missing label"),
    "a lone label": (HEADED + "1,2,7", "column 3 ('kind'): 1 row has the label '7' (line 14);"),
    "two of a label": (HEADED + "1,2,x\n1,3,x", "2 rows have the label 'x' (line 14); wanted:"),
    "a label for each row": ("a,b\n" + "".join(f"{i},{i + .5}\n" for i in range(30)),
        "column 2 ('b'): 30 different labels in 30 rows, and 1 row has the label '0.5' (line 2)"),
    "too many labels": ("".join(f"{i},{i + .5}\n" for i in range(1001)),
        "column 2: 1001 different labels in 1001 rows; wanted: at most 1000 (--label says"),
    "one class": (rows("same"), "every row has the label 'same'; wanted: at least two different"),
    "two rows": ("1,2,0\n3,4,1", "mine.csv has 2 rows of data; wanted: at least 10"),
    "a header alone": ("a,b,c\n", "mine.csv has 0 rows of data; wanted: at least 10"),
    "one column": ("1\n2\n3", "line 1: one column, '1'; wanted: at least two columns"),
    "nothing": ("", "mine.csv is empty; wanted: rows of numbers and a label"),
    "blank lines": ("\n \n\t\n", "mine.csv is empty"),
    "a mark alone": ("\ufeff", "mine.csv is empty"),
    "an open quote": (HEADED + '1,"2,0\n' + rows(), "line 14: unexpected end of data; wanted: quo"),
    "a quote in a cell": (HEADED + '1,"2"3,0\n', "line 14: ',' expected after '\"'; wanted:"),
    "Latin-1": ((HEADED + "1,2,grün\n").encode("latin-1"),
        "line 14: the byte 0xfc, which is not UTF-8; wanted: text saved as UTF-8"),
    "half of UTF-16": (HEADED.encode("utf-16") + b"x", "which is not UTF-16"),
    "a zero byte": (b"1,2,\0\n", "mine.csv is not text"),
    "a zero byte later": (HEADED.encode() * 400 + b"1,\0,0\n", "'wide'; wanted: a number"),
    "npy": (b"\x93NUMPY\x01\0", "mine.csv is a NumPy array; wanted: a text file"),
    "gzip": (b"\x1f\x8b\x08\0", "mine.csv is compressed with gzip; wanted: a text file"),
    "xlsx": (b"PK\x03\x04", "mine.csv is a ZIP archive, as .xlsx and .npz files are"),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_what_is_wrong_is_said_in_one_line(tmp_path, case):
    content, message = BAD[case]
    with pytest.raises(text.BadData) as raised:
        read(tmp_path, content)
    assert message in str(raised.value) and str(tmp_path / "mine.csv") in str(raised.value)
    assert len(str(raised.value).splitlines()) == 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (dict(label="kid"), "no column is called 'kid' (did you mean 'kind'?); wanted for --label"),
        (dict(label="4"), "no column is called '4'; wanted for --label: a name in the header or"),
        (dict(label="0"), "from 1 to 3"),
        (dict(drop=["wide", "nothing"]), "no column is called 'nothing'"),
        (dict(drop=["3"]), "column 3 holds the labels; --drop cannot leave it out"),
        (dict(drop=["1", "long"]), "--drop leaves no column but the label's"),
    ],
)
def test_columns_that_are_not_there(tmp_path, options, message):
    with pytest.raises(text.BadData, match=re.escape(message)):
        read(tmp_path, HEADED, **options)


def test_a_name_that_two_columns_have(tmp_path):
    content = HEADED.replace("wide", "kind")
    with pytest.raises(text.BadData, match="columns 1 and 3 are called 'kind'.*such as --label 1"):
        read(tmp_path, content, "kind")
    assert read(tmp_path, content, "3").names == ("kind, column 1", "long")


def test_a_name_without_a_header(tmp_path):
    with pytest.raises(text.BadData, match="no column is called 'kind'"):
        read(tmp_path, rows(), "kind")


def test_what_cannot_be_read(tmp_path, monkeypatch):
    for path, message in [
        (tmp_path / "none.csv", "cannot be read: No such file or directory"),
        (tmp_path, "is a folder; wanted: a text file"),
    ]:
        with pytest.raises(text.BadData, match=message):
            reading.read_table(path)
    monkeypatch.setattr(text, "LARGEST_FILE", 100)
    with pytest.raises(text.BadData, match="is larger than"):
        read(tmp_path, rows())


def test_long_cells_are_shown_in_part(tmp_path):
    with pytest.raises(text.BadData, match=r"'x{37}\.\.\.'; wanted"):
        read(tmp_path, HEADED + f"1,{'x' * 100},0")


def test_random_damage_never_ends_in_another_error(tmp_path):
    """Bytes of a good file are changed at random: it is read, or refused in one line."""
    rng = np.random.default_rng(0)
    good = (HEADED + rows('"a {0}"')).encode()
    refused = 0
    for _ in range(400):
        bad = bytearray(good)
        for place in rng.integers(len(bad), size=rng.integers(1, 4)):
            bad[place] = rng.choice(list(b'0.,;\t"\n\r x-e\xff'))
        try:
            table = read(tmp_path, bytes(bad))
        except text.BadData as error:
            refused += 1
            assert len(str(error).splitlines()) == 1
        else:
            assert np.isfinite(table.features).all()
    assert 200 < refused < 400
