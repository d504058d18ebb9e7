"""A real HTTP server on the loopback that speaks the chat protocol, and misbehaves when told."""

from __future__ import annotations

import json
import socket
import struct
import threading
from collections import deque
from collections.abc import Callable, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Fault = Callable[["Handler"], None]


class FakeEndpoint:
    """A chat endpoint. speak: the assistant's next text, of the body of a request.

    faults: what the next requests for a completion get instead; None for a good reply.
    seen: the bodies of requests for a completion, in order. keys: the Authorization headers.
    """

    def __init__(
        self,
        speak: Callable[[dict[str, Any]], Any],
        models: Sequence[str] | None = ("m",),
        port: int = 0,
    ) -> None:
        self.speak, self.models = speak, models
        self.faults: deque[Fault | None] = deque()
        self.model_faults: deque[Fault | None] = deque()
        self.seen: list[dict[str, Any]] = []
        self.keys: list[str | None] = []
        self.released = threading.Event()
        self._server = _Server(("127.0.0.1", port), Handler)
        self._server.endpoint = self
        self.port = self._server.server_address[1]
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def spec(self) -> str:
        return f"openai:{self.url}#m"

    def __enter__(self) -> FakeEndpoint:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.released.set()
        self._server.shutdown()
        self._thread.join()
        self._server.drop_connections()
        self._server.server_close()


class _Server(ThreadingHTTPServer):
    endpoint: FakeEndpoint
    daemon_threads = False  # so that closing waits for them
    request_queue_size = 128

    def __init__(self, *args: Any) -> None:
        self.open: set[socket.socket] = set()
        super().__init__(*args)

    def process_request(self, request: Any, client_address: Any) -> None:
        self.open.add(request)
        super().process_request(request, client_address)

    def close_request(self, request: Any) -> None:
        self.open.discard(request)
        super().close_request(request)

    def drop_connections(self) -> None:
        """As a server that dies: those kept alive too."""
        for connection in list(self.open):
            try:
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:
                continue

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that hung up is no news."""


class Handler(BaseHTTPRequestHandler):
    """One connection."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: _Server

    def do_GET(self) -> None:
        endpoint = self.server.endpoint
        endpoint.keys.append(self.headers["Authorization"])
        fault = endpoint.model_faults.popleft() if endpoint.model_faults else None
        if fault is not None:
            fault(self)
        elif self.path != "/v1/models" or endpoint.models is None:
            self.answer({"detail": "Not Found"}, 404)
        else:
            self.answer({"object": "list", "data": [{"id": name} for name in endpoint.models]})

    def do_POST(self) -> None:
        endpoint = self.server.endpoint
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        endpoint.keys.append(self.headers["Authorization"])
        fault = endpoint.faults.popleft() if endpoint.faults else None
        if fault is not None:
            fault(self)
        elif self.path != "/v1/chat/completions":
            self.answer({"detail": "Not Found"}, 404)
        else:
            endpoint.seen.append(body)
            self.answer(completion(endpoint.speak(body)))

    def answer(self, data: Any, status: int = 200, **headers: str) -> None:
        """A reply; bytes as they are, anything else as JSON."""
        content = data if isinstance(data, bytes) else json.dumps(data).encode()
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        """Quiet."""


def completion(said: Any) -> dict[str, Any]:
    """A reply in the form of the API; a text, or a dict that overrides fields of the choice."""
    fields = said if isinstance(said, dict) else {"message": {"role": "assistant", "content": said}}
    return {
        "object": "chat.completion",
        "choices": [{"index": 0, "finish_reason": "stop", **fields}],
        "usage": {"prompt_tokens": 7, "completion_tokens": 3},
    }


def status(code: int, said: Any = None, **headers: str) -> Fault:
    """Answers with a status."""
    content = {"error": {"message": f"status {code}"}} if said is None else said
    return lambda handler: handler.answer(content, code, **headers)


def reset(handler: Handler) -> None:
    """Breaks the connection off."""
    handler.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    handler.connection.close()
    handler.close_connection = True


def half(handler: Handler) -> None:
    """Dies in the middle of a reply."""
    handler.send_response(200)
    handler.send_header("Content-Length", "1000")
    handler.end_headers()
    handler.wfile.write(b'{"choices": [')
    handler.wfile.flush()
    handler.connection.shutdown(socket.SHUT_RDWR)
    handler.close_connection = True


def hang(handler: Handler) -> None:
    """Says nothing until the server is closed."""
    handler.server.endpoint.released.wait(30)
    handler.close_connection = True


def trickle(handler: Handler) -> None:
    """Sends a byte now and then, each soon enough to keep a read from timing out."""
    handler.send_response(200)
    handler.send_header("Content-Length", "100000")
    handler.end_headers()
    try:
        while not handler.server.endpoint.released.wait(0.05):
            handler.wfile.write(b" ")
            handler.wfile.flush()
    except OSError:
        pass
    handler.close_connection = True
