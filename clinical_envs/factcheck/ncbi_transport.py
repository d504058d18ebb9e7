"""Asking NCBI's E-utilities until they answer: pacing, retries, and a key that stays hidden.

Every request is a POST, so the key is in no URL that anything could log. It is read from
``NCBI_API_KEY`` when a request is made and kept nowhere; NCBI echoes it in some errors, so it is
cut out of everything that is said or raised.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from typing import Any, Protocol, TypeVar
from urllib.parse import quote_plus

from clinical_envs.errors import InvalidArgument, require
from clinical_envs.factcheck.ncbi_error import Fault, SearchUnavailable

KEY_VARIABLE = "NCBI_API_KEY"
EMAIL_VARIABLE = "NCBI_EMAIL"
TOOL = "clinical-envs"
STARTS_PER_S = 3.0  # NCBI's limits, without a key and with one
STARTS_PER_S_WITH_KEY = 10.0
FIRST_PAUSE_S = 1.0
LONGEST_PAUSE_S = 30.0
MAX_ANSWER_BYTES = 64 * 2**20  # 200 records many times over

T = TypeVar("T")
Say = Callable[[str], None]


class Clock(Protocol):
    """Time, in seconds from any start."""

    def now(self) -> float:
        """The time."""
        ...

    def sleep(self, seconds: float) -> None:
        """Wait."""
        ...


class SystemClock:
    """The machine's monotonic clock, which its processes share."""

    def now(self) -> float:
        """The time since some moment before."""
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        """Wait."""
        time.sleep(seconds)


class Eutils:
    """Questions to one E-utilities server.

    ``claim_start(now, interval)`` gives the next moment at which a request may start.

    Raises:
        InvalidArgument: ``base_url`` is no http address, or a time is not positive.
        MissingExtra: httpx is not installed.
    """

    def __init__(
        self,
        base_url: str,
        *,
        claim_start: Callable[[float, float], float],
        clock: Clock,
        say: Say | None,
        patience_s: float,
        timeout_s: float,
    ) -> None:
        if not base_url.startswith(("https://", "http://")):
            raise InvalidArgument(f"{base_url[:80]!r} is no address; give https://HOST/PATH")
        if not (patience_s > 0 and timeout_s > 0):
            raise InvalidArgument("patience and timeout are seconds above 0")
        self._httpx: Any = require("httpx", "evidence")
        self._client = self._httpx.Client(timeout=timeout_s, headers={"User-Agent": TOOL})
        self._base_url = base_url.rstrip("/")
        self._claim_start = claim_start
        self._clock = clock
        self._say = say
        self._patience_s = patience_s
        self._timeout_s = timeout_s

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def ask(self, utility: str, fields: Mapping[str, str], read: Callable[[bytes], T]) -> T:
        """What ``read`` makes of the answer; after a fault the question is put again.

        Pauses double from 1 s to 30 s, or are as long as the server says.

        Raises:
            SearchUnavailable: no answer within the patience, or none to be expected.
        """
        deadline = self._clock.now() + self._patience_s
        pause_s, tries = FIRST_PAUSE_S, 0
        while True:
            tries += 1
            try:
                return read(self._send(utility, fields))
            except Fault as fault:
                reason, wait_s = _hidden(str(fault)), max(pause_s, fault.pause_s)
            left_s = deadline - self._clock.now()
            if wait_s >= left_s:
                break
            if self._say is not None:
                self._say(
                    f"NCBI {utility}: {reason}; asking again in {wait_s:.0f} s "
                    f"(patience: {left_s:.0f} s)"
                )
            self._clock.sleep(wait_s)
            pause_s = min(2 * pause_s, LONGEST_PAUSE_S)
        raise SearchUnavailable(
            f"NCBI {utility} gave no answer: {tries} tries within a patience of "
            f"{self._patience_s:.0f} s, last: {reason}; try again later"
        )

    def _send(self, utility: str, fields: Mapping[str, str]) -> bytes:
        form = {"db": "pubmed", "tool": TOOL, **fields}
        if email := os.environ.get(EMAIL_VARIABLE):
            form["email"] = email
        rate = STARTS_PER_S
        if key := os.environ.get(KEY_VARIABLE):
            form["api_key"] = key
            rate = STARTS_PER_S_WITH_KEY
        now = self._clock.now()
        start = self._claim_start(now, 1.0 / rate)
        if start > now:
            self._clock.sleep(start - now)
        reason = ""
        try:
            status, headers, body = self._post(f"{self._base_url}/{utility}.fcgi", form)
        except self._httpx.RequestError as error:
            reason = type(error).__name__
        if reason:  # outside the handler: the request, with the key, is then no one's context
            raise Fault(reason)
        return _body(utility, status, headers, body)

    def _post(self, url: str, form: Mapping[str, str]) -> tuple[int, Mapping[str, str], bytes]:
        latest = self._clock.now() + self._timeout_s
        chunks, size = [], 0
        with self._client.stream("POST", url, data=form) as response:
            for chunk in response.iter_bytes():
                chunks.append(chunk)
                size += len(chunk)
                if size > MAX_ANSWER_BYTES:
                    raise SearchUnavailable(
                        f"NCBI answers with more than {MAX_ANSWER_BYTES} bytes; check the address "
                        "of the server"
                    )
                if self._clock.now() > latest:
                    raise Fault(f"an answer of more than {self._timeout_s:g} s")
        return response.status_code, response.headers, b"".join(chunks)


def _body(utility: str, status: int, headers: Mapping[str, str], body: bytes) -> bytes:
    """The body of an answer that can be read; 400 can, as NCBI wraps outages of its own in it."""
    if b"api key invalid" in body.lower():
        raise SearchUnavailable(f"NCBI refuses the key in {KEY_VARIABLE}; correct it or unset it")
    if status in (200, 400):
        return body
    if status in (408, 429) or status >= 500:
        asked = headers.get("Retry-After", "")
        pause_s = float(asked) if asked.isascii() and asked.isdigit() else 0.0
        raise Fault(f"HTTP {status}", pause_s=pause_s)
    raise SearchUnavailable(
        f"NCBI {utility} answers HTTP {status}; check the address of the server"
    )


def _hidden(text: str) -> str:
    """The text on one line, without the key."""
    if key := os.environ.get(KEY_VARIABLE):
        for form in (key, quote_plus(key)):
            text = text.replace(form, "[key]")
    return " ".join(text.split())[:200]
