"""What the program prints about training and about the held-out examples."""

from __future__ import annotations

import sys

import numpy as np

from demo.reading import Table

MOST_CLASSES = 20


def progress(done: int, total: int, note: str, last: bool) -> None:
    """A bar that is drawn over itself on a terminal, and about ten lines elsewhere."""
    width = 30
    filled = width * done // total
    line = f"  training [{'#' * filled}{'.' * (width - filled)}] {done}/{total} {note}"
    if sys.stdout.isatty():
        print("\r" + line, end="\n" if last else "", flush=True)
    elif last or done % max(1, total // 10) == 0:
        print(line, flush=True)


def fitted(name: str, width: int) -> str:
    """A name on one line, with the dots of an omission where it is too long."""
    name = "".join(c if c.isprintable() else " " for c in name)
    return name if len(name) <= width else name[: width - 1] + "…"


def confusion(count: int, truth: np.ndarray, answers: np.ndarray) -> np.ndarray:
    """How many examples of each class (rows) got each answer (columns)."""
    table = np.zeros((count, count), int)
    np.add.at(table, (truth, answers), 1)
    return table


def classes(names: tuple[str, ...], truth: np.ndarray, answers: np.ndarray) -> None:
    """Prints a row per class: examples, recall, precision and what the others were taken for."""
    table = confusion(len(names), truth, answers)
    examples, answered, right = table.sum(axis=1), table.sum(axis=0), np.diag(table)
    width = max(5, *(len(fitted(name, 24)) for name in names))
    # The classes that are worst recognised first, where not all are shown.
    order = np.argsort(right / examples, kind="stable")[:MOST_CLASSES]
    order = order if len(names) > MOST_CLASSES else np.arange(len(names))
    print("\nheld-out examples, class by class:")
    print(f"  {'class':{width}s} examples  right  recall  precision  most often taken for")
    for i in order:
        precision = f"{100 * right[i] / answered[i]:.0f} %" if answered[i] else "–"
        others = np.where(np.arange(len(names)) == i, 0, table[i])
        wrong = f"{fitted(names[others.argmax()], 24)} ({others.max()})" if others.any() else ""
        print(
            f"  {fitted(names[i], 24):{width}s} {examples[i]:8d} {right[i]:6d} "
            f"{100 * right[i] / examples[i]:5.0f} %  {precision:>9s}  {wrong}".rstrip()
        )
    if len(names) > MOST_CLASSES:
        print(f"  … and {len(names) - MOST_CLASSES} classes of no lower recall")
    common = int(examples.argmax())
    print(
        f"the answer {fitted(names[common], 24)} to everything would be right in "
        f"{100 * examples[common] / len(truth):.1f} %"
    )


def hardest(
    place: str, table: Table, rows: np.ndarray, answers: np.ndarray, norms: np.ndarray
) -> None:
    """Prints the examples with the largest gradients, and where each stands."""
    print("\nthe hardest held-out examples, by the norm of their own gradient:")
    for row, answer, norm in zip(rows, answers, norms, strict=True):
        truth = fitted(table.classes[table.labels[row]], 24)
        print(
            f"  {place} {table.lines[row]:4d}: truth {truth}, "
            f"answer {fitted(table.classes[answer], 24)}, norm {norm:.2f}"
        )
