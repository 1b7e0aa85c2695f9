"""A trained network behind HTTP: exported to a file, and served by a program that has no model.

    python examples/recipes/serving.py                        # trains, exports, serves and asks
    python examples/recipes/serving.py --export digits.weft
    python examples/recipes/serving.py --serve digits.weft --port 8000
    curl -d '{"pixels": [0, 0, 5, 13, ...]}' http://127.0.0.1:8000/

`weft.export` writes a compiled function and the weights in it as StableHLO. The service reads that
file and knows nothing else: no weights, no function, not even how many pixels an image has. What it
cannot use it refuses with the status 400 and a sentence.
"""

from __future__ import annotations

import argparse
import json
import sys
import threading
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import matplotlib.style
import numpy as np
from matplotlib.figure import Figure
from sklearn.datasets import load_digits

import weft
import weft.numpy as jnp
from weft import Array, export, lax, nn

STYLE = Path(__file__).with_name("recipes.mplstyle")


def train() -> Array:
    """The weights of a softmax regression on the digits, by gradient descent."""
    x, y = load_digits(return_X_y=True)
    x, y = jnp.asarray(x[:1500], jnp.float32), nn.one_hot(jnp.asarray(y[:1500]), 10)

    def loss(weights: Array) -> Array:
        return -jnp.mean(jnp.sum(y * nn.log_softmax(x @ weights), axis=-1))

    return lax.fori_loop(0, 300, lambda _, w: w - 0.01 * weft.grad(loss)(w), jnp.zeros((64, 10)))


def exported() -> bytes:
    """The probabilities of an image, as a program of its own. The weights are a part of it."""
    weights = train()

    @weft.jit
    def predict(pixels: Array) -> Array:
        return nn.softmax(pixels @ weights)

    return export.export(predict)(weft.ShapeDtypeStruct((64,), jnp.float32)).serialize()


def pixels_of(body: bytes, shape: tuple[int, ...]) -> np.ndarray:
    """The array in a request, if it has this shape."""
    try:
        x = np.asarray(json.loads(body)["pixels"])
    except (ValueError, TypeError, KeyError, RecursionError):
        raise ValueError('send JSON such as {"pixels": [0, 0.5, ...]}') from None
    if x.shape != shape or x.dtype.kind not in "if" or not (abs(x) < 1e6).all():
        raise ValueError(f"got {x.dtype}{list(x.shape)}, wanted {list(shape)} numbers below 1e6")
    return x.astype(np.float32)


def serve(program: bytes, port: int) -> ThreadingHTTPServer:
    """A server that answers with the probabilities of the classes."""
    model = export.deserialize(program)
    (wanted,) = model.in_avals
    model.call(np.zeros(wanted.shape, wanted.dtype))  # compiles it before the first request

    class Handler(BaseHTTPRequestHandler):
        timeout = 10  # seconds to wait for the rest of a request

        def do_POST(self) -> None:
            try:
                size = max(0, int(self.headers["Content-Length"] or 0))
                body = self.rfile.read(min(size, 100_000))
                found = np.asarray(model.call(pixels_of(body, wanted.shape)))
                self.answer(200, {"class": int(found.argmax()), "probabilities": found.tolist()})
            except ValueError as error:
                self.answer(400, {"error": str(error)})

        def answer(self, status: int, content: dict) -> None:
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.end_headers()
            self.wfile.write(json.dumps(content).encode())

    return ThreadingHTTPServer(("127.0.0.1", port), Handler)


def ask(port: int, content: object) -> tuple[int, dict]:
    """The status of the answer to a request, and what it says."""
    connection = HTTPConnection("127.0.0.1", port)
    connection.request("POST", "/", json.dumps(content))
    response = connection.getresponse()
    return response.status, json.load(response)


def draw(path: Path, images: np.ndarray, answers: list[dict]) -> None:
    with matplotlib.style.context(STYLE):
        above, below = (figure := Figure()).subplots(2, len(images))
        for i, answer in enumerate(answers):
            above[i].imshow(-images[i].reshape(8, 8)).axes.set_axis_off()
            below[i].bar(range(10), answer["probabilities"])
            below[i].set(xticks=range(0, 10, 3), yticks=[], ylim=(0, 1))
        figure.savefig(path, metadata={"Date": None})


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--picture", type=Path, help="where to draw images and answers")
    parser.add_argument("--export", type=Path, help="write the program into this file, and end")
    parser.add_argument("--serve", type=Path, help="serve the program in this file")
    parser.add_argument("--port", type=int, default=0, help="0 takes one that is free")
    options = parser.parse_args(argv)
    if options.export:
        options.export.write_bytes(exported())
        return 0
    with serve(options.serve.read_bytes() if options.serve else exported(), options.port) as server:
        if options.serve:
            print(f"serving at port {server.server_port}", flush=True)
            server.serve_forever()
        threading.Thread(target=server.serve_forever, daemon=True).start()
        images, labels = (array[1500:1505] for array in load_digits(return_X_y=True))
        answers = [ask(server.server_port, {"pixels": image.tolist()})[1] for image in images]
        for label, answer in zip(labels, answers, strict=True):
            print(f"a {label} is taken for a {answer['class']}: {max(answer['probabilities']):.2f}")
        print(*ask(server.server_port, {"pixels": [1, 2]}))
        server.shutdown()
    if options.picture:
        draw(options.picture, images, answers)
    return 0


if __name__ == "__main__":
    sys.exit(main())
