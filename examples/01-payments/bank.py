"""A small bank on 127.0.0.1, often busy and sometimes slow. It stands for a service of somebody else.

It charges once for each idempotency key, however often it is asked: this is what lets a shop ask again when
it does not know whether the bank had heard it.
"""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

BUSY_EVERY = 3  # every third order is told to come back later, once
SLOW_EVERY = 4  # every fourth is answered late
SLOW_S = 0.3


class Bank:
    """The ledger, and everything that was asked."""

    def __init__(self, password: str) -> None:
        self.ledger: dict[str, dict[str, Any]] = {}  # charges by idempotency key
        self.asked: Counter[str] = Counter()  # requests by order
        self._password = password
        self._lock = threading.Lock()
        self._closing = threading.Event()
        self._enough = threading.Condition(self._lock)

    def answer(self, password: str, key: str, wanted: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        """Decide about one request: a status and what is said."""
        if password != f"Bearer {self._password}" or not key:
            return 401, {"error": "who are you?"}
        number = int(wanted["order"].lstrip("o"))
        with self._lock:
            self.asked[wanted["order"]] += 1
            if number % BUSY_EVERY == 0 and self.asked[wanted["order"]] == 1:
                return 503, {"error": "busy, come back later"}
            charge = {"charge": f"c-{len(self.ledger) + 1}", **wanted}
            booked = self.ledger.setdefault(key, charge)
            self._enough.notify_all()
        if number % SLOW_EVERY == 0:
            self._closing.wait(SLOW_S)  # booked, but the answer takes its time
        return 201, {"charge": booked["charge"]}

    def wait_charges(self, count: int, most_s: float) -> bool:
        """Wait until so many charges are in the ledger."""
        with self._enough:
            return self._enough.wait_for(lambda: len(self.ledger) >= count, most_s)

    @contextmanager
    def open(self) -> Iterator[str]:
        """Listen on a free port while the block runs; gives the address."""
        bank = self

        class Handler(BaseHTTPRequestHandler):
            def handle(self) -> None:
                with suppress(ConnectionError):  # whoever asked is gone; what is booked stays booked
                    super().handle()

            def do_POST(self) -> None:
                size = int(self.headers["Content-Length"])
                data = self.rfile.read(size)
                if len(data) < size:  # whoever asked was killed while asking
                    return
                body = json.loads(data)
                given = self.headers.get("Authorization", ""), self.headers.get("Idempotency-Key", "")
                status, said = bank.answer(*given, body)
                data = json.dumps(said).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002, ARG002 - as the base has it
                return

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            self._closing.set()
            server.shutdown()
            thread.join()
            server.server_close()
