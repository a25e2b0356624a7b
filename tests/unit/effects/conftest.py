"""What tests of adapters share: attempts with real blobs, secrets from a table, HTTP servers."""

from __future__ import annotations

import asyncio
from uuid import UUID

import pytest

from cellule.effects.attempt import Attempt
from cellule.effects.http.adapter import HttpAdapter, HttpOptions
from cellule.effects.secrets.resolver import Secrets
from cellule.host.outbox.attempts import CasBlobs
from cellule.store.cas import Cas
from cellule.store.engines.memory import MemoryDisk, MemoryEngine

UNIVERSE = UUID(int=1)


class TableSource:
    """Secrets from a dict."""

    def __init__(self, values):
        self.values = values

    async def get(self, name):
        return self.values.get(name)

    def how_to_add(self, name):
        return f"Add {name} to the table."


@pytest.fixture
def blobs():
    """The blobs of a universe in memory."""
    cas = Cas(MemoryEngine(MemoryDisk()), UNIVERSE)
    return CasBlobs(lambda _universe: cas, UNIVERSE)


@pytest.fixture
def make_attempt(blobs):
    """Make an attempt, its fields as given; its notes are in `attempt.on_note.kept`."""

    class Kept:
        def __init__(self):
            self.kept = []

        def __call__(self, note):
            self.kept.append(note)

    def make(*, grant=None, secrets=None, **others):
        fields = {
            "intent": "intent-1", "key": "key-1", "number": 1, "timeout_s": 60.0, "world": UUID(int=2),
            "universe": UNIVERSE, "module": "shop/order@1", "cell": b"o1", "blobs": blobs,
            "secrets": Secrets(TableSource(secrets or {})), "grant": grant, "on_note": Kept(),
        }  # fmt: skip
        return Attempt(**{**fields, **others})

    return make


class HttpServer:
    """Answers by path, and keeps what it was sent."""

    def __init__(self):
        self.answers = {}
        self.requests = []
        self.connections = 0
        self.port = 0

    def redirect(self, path, location, status=302):
        self.answer(path, status, b"", location=location)

    def url(self, path="/", host="127.0.0.1"):
        return f"http://{host}:{self.port}{path}"

    def answer(self, path, status=200, body=b"", **headers):
        lines = [f"HTTP/1.1 {status} X"]
        lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
        if "content_length" not in headers:
            lines.append(f"content-length: {len(body)}")
        self.answers[path] = "\r\n".join([*lines, "", ""]).encode() + body

    async def talk(self, reader, writer):
        self.connections += 1
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                await self.one(head.decode("latin-1"), reader, writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    async def one(self, head, reader, writer):
        first, *lines = head.strip().split("\r\n")
        headers = {line.partition(":")[0].lower(): line.partition(":")[2].strip() for line in lines}
        body = await reader.readexactly(int(headers.get("content-length", 0)))
        method, path, _ = first.split(" ")
        self.requests.append((method, path, headers, body))
        answer = self.answers.get(path.partition("?")[0])
        if answer is None:
            writer.close()
            return
        writer.write(answer)
        await writer.drain()


@pytest.fixture
async def serve():
    """Start servers that end with the test."""
    started = []

    async def start(**options):
        server = HttpServer()
        listening = await asyncio.start_server(server.talk, "127.0.0.1", 0, **options)
        server.port = listening.sockets[0].getsockname()[1]
        started.append(listening)
        return server

    yield start
    for listening in started:
        listening.close()


@pytest.fixture
async def http():
    """Make adapters that are closed with the test."""
    made = []

    def make(**options):
        made.append(HttpAdapter(HttpOptions(**options)))
        return made[-1]

    yield make
    for adapter in made:
        await adapter.close()


@pytest.fixture
async def server(serve):
    return await serve()


@pytest.fixture
def names():
    """Make resolvers that know the given names, and count their questions."""

    def make(**known):
        async def resolver(host, port):
            resolver.asked.append(host)
            if host not in known:
                raise OSError("unknown")
            return known[host]

        resolver.asked = []
        return resolver

    return make


@pytest.fixture
async def unused_port():
    """A port on which nobody listens."""
    listening = await asyncio.start_server(lambda *_: None, "127.0.0.1", 0)
    port = listening.sockets[0].getsockname()[1]
    listening.close()
    await listening.wait_closed()
    return port
