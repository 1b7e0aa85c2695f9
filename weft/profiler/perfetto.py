"""Profiles for Perfetto: the file under the name it is looked for, and a link that opens it.

The viewer at ui.perfetto.dev reads a profile from a server on this machine, port 9001; that is the
one port that its security policy allows.
"""

from __future__ import annotations

import http.server
import os
import shutil
from pathlib import Path
from typing import Any

_PORT = 9001


def write_for_perfetto(log_dir: str) -> Path | None:
    """Copies the newest profile below a directory to `perfetto_trace.json.gz` next to it."""
    found = Path(log_dir).glob("plugins/profile/*/*.trace.json.gz")
    newest = max(found, key=os.path.getmtime, default=None)
    if newest is None:
        return None
    target = newest.parent / "perfetto_trace.json.gz"
    shutil.copyfile(newest, target)
    return target


class _Handler(http.server.SimpleHTTPRequestHandler):
    """Hands out one file to the viewer, and notes that it has."""

    def end_headers(self) -> None:
        self.send_header("Access-Control-Allow-Origin", "*")
        super().end_headers()

    def do_GET(self) -> None:
        self.server.asked = self.path.lstrip("/")  # type: ignore[attr-defined]
        super().do_GET()

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        """Says nothing."""


def serve_once(file: Path, port: int = _PORT) -> None:
    """Prints a link that opens a profile in the viewer, and waits until it has been fetched."""

    def handler(*args: Any) -> _Handler:
        return _Handler(*args, directory=str(file.parent))

    with http.server.HTTPServer(("127.0.0.1", port), handler) as server:
        server.asked = ""  # type: ignore[attr-defined]
        address = f"http://127.0.0.1:{server.server_port}/{file.name}"
        print(f"Open URL in browser: https://ui.perfetto.dev/#!/?url={address}", flush=True)
        while server.asked != file.name:  # type: ignore[attr-defined]
            server.handle_request()
