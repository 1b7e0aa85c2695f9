"""The options of `digits.py`."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn


class OneLineParser(argparse.ArgumentParser):
    """A parser whose errors are one line, as those of the data are."""

    def error(self, message: str) -> NoReturn:
        """Ends the program."""
        self.exit(2, f"error: {message} (--help lists the options)\n")


def arguments(description: str | None, argv: list[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = OneLineParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--data", "--csv", type=Path, metavar="FILE", help="a file of your own (the digits)")
    add("--label", default="last", metavar="COLUMN",
        help="the label's column: a name, a number from 1, first or last (last)")  # fmt: skip
    add("--drop", default="", metavar="COLUMNS", help="columns to leave out, separated by commas")
    add("--epochs", type=whole(1, 10**6), metavar="N",
        help="passes over the data at most (20 to 100, by the number of rows)")  # fmt: skip
    add("--batch", type=whole(1, 10**6), metavar="N", help="examples per step (by their number)")
    add("--seed", type=whole(0, 2**32 - 2), default=0, metavar="N",
        help="of the split and of the weights (0)")  # fmt: skip
    add("--devices", type=whole(1, 256), metavar="N", help="train data-parallel over N CPU devices")
    add("--show-jaxpr", action="store_true", help="print the program of the loss")
    add("--output", type=Path, metavar="FILE",
        help="the picture: .png, .pdf or .svg (out/digits.png, or by the data's name)")  # fmt: skip
    options = parser.parse_args(argv)
    options.output = options.output or output_for(options.data)
    return options


def whole(least: int, most: int) -> Callable[[str], int]:
    """A parser of whole numbers in a range."""

    def parse(text: str) -> int:
        if not text.isdecimal() or not least <= int(text[:12]) <= most:
            raise argparse.ArgumentTypeError(
                f"{text!r}; wanted: a whole number from {least} to {most}"
            )
        return int(text)

    return parse


def output_for(path: Path | None) -> Path:
    """Where the picture goes if nothing is said."""
    return Path("out") / f"{path.stem if path else 'digits'}.png"
