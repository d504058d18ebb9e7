"""HTTP with patience: whole JSON replies from a server that may be down, busy or slow for a while.

What waiting can mend is tried again, with growing pauses, until a patience that is said runs out.
The key comes from the environment variable OPENAI_API_KEY alone, is sent to the URL that was
named, and stands in no message, record or repr.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable, Mapping
from email.utils import parsedate_to_datetime
from typing import Any, NamedTuple

from clinical_envs.errors import ClinicalEnvsError, InvalidArgument, require

KEY_VARIABLE = "OPENAI_API_KEY"
MAX_REPLY_BYTES = 16 * 2**20
_FIRST_PAUSE_S, _LONGEST_PAUSE_S, _SAY_EVERY_S = 0.5, 30.0, 10.0
_IDLE_S = 2.0  # servers hang up on a connection that was idle for five
_BUSY = (408, 409, 429)


class EndpointError(ClinicalEnvsError, RuntimeError):
    """An endpoint could not be reached, or answered with something else than was asked for."""


class Reply(NamedTuple):
    """A whole HTTP reply. retry_after_s: the pause that the server asks for, 0 for none."""

    status: int
    content: bytes
    retry_after_s: float

    @property
    def may_pass(self) -> bool:
        """Whether the same request can fare better later."""
        return self.status in _BUSY or (self.status >= 500 and self.status != 501)


class Transport:
    """Requests under one base URL, from many threads; close it.

    url: without a trailing slash. timeout_s: of one attempt. patience_s: how long attempts are
    repeated after the first that failed. say: told what is waited for, at most once in ten
    seconds, and what else is found out. retries: attempts repeated so far. has_key: whether the
    environment holds a key.
    """

    def __init__(
        self, url: str, *, timeout_s: float, patience_s: float, say: Callable[[str], None] | None
    ) -> None:
        self.url, self.timeout_s, self.patience_s = url, timeout_s, patience_s
        self.retries = 0
        self._say, self._said_at = say, float("-inf")
        self._key = _key()
        self.has_key = bool(self._key)
        self._lock, self._closed, self._in_flight = threading.Lock(), threading.Event(), 0
        self._httpx = require("httpx", "agents")
        authorization = {"Authorization": f"Bearer {self._key}"} if self._key else {}
        self._client = self._httpx.Client(
            headers={"Content-Type": "application/json"} | authorization,
            timeout=timeout_s,
            limits=self._httpx.Limits(
                max_connections=None,
                max_keepalive_connections=None,
                keepalive_expiry=_IDLE_S,
            ),
        )

    def close(self) -> None:
        """End pauses at once; a request in flight in another thread is the last of its kind."""
        with self._lock:
            self._closed.set()
            idle = self._in_flight == 0
        if idle:
            self._client.close()

    def ask(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Reply:
        """A reply that no waiting would change; whatever may pass is waited for.

        Raises:
            EndpointError: the patience ran out, or the reply cannot be taken in.
        """
        pause_s, failed_at = _FIRST_PAUSE_S, None
        while True:
            least_s = 0.0
            try:
                reply = self._send(method, path, body)
                if not reply.may_pass:
                    return reply
                trouble = f"status {reply.status} ({self.detail(reply.content)})"
                least_s = reply.retry_after_s
            except self._httpx.TimeoutException:
                trouble = f"no answer within {self.timeout_s:g} s"
            except self._httpx.TransportError as error:
                trouble = self._clean(str(error)) or type(error).__name__
            except self._httpx.RequestError as error:
                raise EndpointError(
                    f"{self.url}/{path}: {self._clean(str(error))}; is this the right URL?"
                ) from None
            if self._closed.is_set():  # which is the trouble, if there is any
                raise EndpointError(f"{self.url}: closed while it was asked")
            now = time.monotonic()
            failed_at = now if failed_at is None else failed_at
            left_s = self.patience_s - (now - failed_at)
            self._give_up_or_tell(trouble, least_s, left_s)
            if self._closed.wait(min(max(pause_s, least_s), left_s)):
                raise EndpointError(f"{self.url}: closed while it was waited for")
            with self._lock:
                self.retries += 1
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)

    def tell(self, what: str) -> None:
        """Say something of the server to whoever listens."""
        if self._say is not None:
            self._say(f"{self.url}: {what}")

    def detail(self, content: bytes) -> str:
        """What a reply says of an error, in one short line."""
        try:
            data = json.loads(content)
        except (ValueError, RecursionError):
            return self._clean(content.decode(errors="replace")) or "an empty reply"
        match data:
            case {"error": {"message": str(said)}} | {"error": str(said)} | {"message": str(said)}:
                return self._clean(said)
            case _:
                return self._clean(json.dumps(data))

    def _give_up_or_tell(self, trouble: str, least_s: float, left_s: float) -> None:
        if left_s <= 0.0 or least_s > left_s:
            asks = f", and it asks to wait {least_s:.0f} s" if least_s else ""
            raise EndpointError(
                f"{self.url}: {trouble}{asks}; given up with a patience of {self.patience_s:g} s; "
                "see that the server runs"
            )
        with self._lock:
            now = time.monotonic()
            just_said = now - self._said_at < _SAY_EVERY_S  # many threads meet the same trouble
            self._said_at = self._said_at if just_said else now
        if not just_said:
            self.tell(f"{trouble}; trying again for up to {left_s:.0f} s")

    def _send(self, method: str, path: str, body: Mapping[str, Any] | None) -> Reply:
        """One attempt, while the client is open; the last one out of a closed client ends it."""
        sent = None if body is None else json.dumps(body).encode()
        with self._lock:
            if self._closed.is_set():
                raise EndpointError(f"{self.url}: this client is closed; make another")
            self._in_flight += 1
        try:
            return self._receive(method, f"{self.url}/{path}", sent)
        finally:
            with self._lock:
                self._in_flight -= 1
                last = self._closed.is_set() and self._in_flight == 0
            if last:
                self._client.close()

    def _receive(self, method: str, url: str, sent: bytes | None) -> Reply:
        """A whole reply: neither a trickle nor a flood is taken in."""
        deadline, content = time.monotonic() + self.timeout_s, bytearray()
        with self._client.stream(method, url, content=sent) as response:
            for chunk in response.iter_bytes():
                content += chunk
                if len(content) > MAX_REPLY_BYTES:
                    raise EndpointError(
                        f"{url}: the reply is larger than {MAX_REPLY_BYTES} bytes; is this the "
                        "right URL?"
                    )
                if time.monotonic() > deadline:
                    raise self._httpx.ReadTimeout("the reply trickles")
            asked = _seconds(response.headers.get("retry-after"))
            return Reply(response.status_code, bytes(content), asked)

    def _clean(self, text: str) -> str:
        """One short line without the key, which a server may repeat."""
        line = " ".join((text.replace(self._key, "***") if self._key else text).split())
        return line if len(line) <= 300 else line[:297] + "..."


def _key() -> str:
    """The key of the environment; empty without one."""
    key = os.environ.get(KEY_VARIABLE, "").strip()
    if not (key.isascii() and key.isprintable()):
        raise InvalidArgument(f"{KEY_VARIABLE} holds a character that no key has; set it again")
    return key


def _seconds(retry_after: str | None) -> float:
    """The pause that a Retry-After header asks for: seconds or a date; 0 for anything else.

    >>> _seconds("7"), _seconds("Thu, 01 Jan 1970 00:00:00 GMT"), _seconds("soon")
    (7.0, 0.0, 0.0)
    """
    if retry_after is None:
        return 0.0
    try:
        if retry_after.strip().isdecimal():
            return float(retry_after)
        return max(0.0, parsedate_to_datetime(retry_after).timestamp() - time.time())
    except (ValueError, OverflowError):
        return 0.0
