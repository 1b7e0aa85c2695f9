"""Threads that start at the same moment."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

__all__ = ["THREADS", "together"]

THREADS = 8


def together(work, count=THREADS):
    """Runs `work(k)` in `count` threads that start at the same moment; errors are raised here."""
    barrier = threading.Barrier(count)

    def start(k):
        barrier.wait(30)
        return work(k)

    with ThreadPoolExecutor(count) as pool:
        return [
            future.result(timeout=120) for future in [pool.submit(start, k) for k in range(count)]
        ]
