"""A small bank for proofs: an HTTP server on loopback that counts charges by their idempotency key.

It answers a charge with an id that depends on nothing but its key, as a real one does, however often it is
asked; now and then it is busy (503), slow, or hangs up after the charge was made, by a seeded choice of
its own. It runs in a thread of its own and outlives the nodes that call it.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from random import Random
from time import sleep
from types import TracebackType
from typing import Any, Self

KEY_HEADER = "Idempotency-Key"


class Bank:
    """The server; `calls` are the keys of each path, in the order they came."""

    def __init__(self, *, seed: int = 0, trouble: float = 0.0) -> None:
        self.calls: dict[str, list[str]] = defaultdict(list)
        self._chance = Random(seed)
        self._trouble = trouble
        self._lock = threading.Lock()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)

    @property
    def url(self) -> str:
        """Where it listens."""
        host, port = self._server.server_address[:2]
        return f"http://{host!s}:{port}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def charge_of(self, path: str) -> str:
        """The id of the one charge that was made at a path."""
        return _charge(path, self.calls[path][0])

    def _called(self, path: str, key: str) -> str:
        with self._lock:
            self.calls[path].append(key)
            if self._chance.random() >= self._trouble:
                return ""
            return self._chance.choice(["busy", "slow", "hang up"])

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        bank = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                self.rfile.read(int(self.headers.get("Content-Length", 0)))
                key = self.headers.get(KEY_HEADER, "")
                trouble = bank._called(self.path, key)
                if trouble == "slow":
                    sleep(0.05)
                if trouble == "hang up":
                    self.close_connection = True
                    return
                body = b"try again" if trouble == "busy" else _charge(self.path, key).encode()
                self.send_response(503 if trouble == "busy" else 200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - as the base class has it
                """Say nothing."""

        return Handler


def _charge(path: str, key: str) -> str:
    return f"ch-{sha256(f'{path} {key}'.encode()).hexdigest()[:12]}"
