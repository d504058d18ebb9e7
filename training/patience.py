"""Waiting for a rollout server: what may pass is tried again, and it is said for how long.

A server that is down, starting, busy or hung, and a full disk, are `Trouble`; what no waiting
mends is a `ServedError` at once. When the patience runs out trouble becomes a `ServedError` too.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from clinical_envs.errors import ClinicalEnvsError
from training.runs import process

T = TypeVar("T")
_FIRST_PAUSE_S, _LONGEST_PAUSE_S, _SAY_EVERY_S = 0.2, 5.0, 30.0


class ServedError(ClinicalEnvsError, RuntimeError):
    """Rollouts cannot be served; the message says why and what to do."""


class Trouble(Exception):
    """An attempt failed in a way that may pass; the message says how."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """How long trouble is waited out, counted from the first failure of an attempt.

    seconds: of trouble without a success. say: told of trouble, of its going on, and of its end.
    """

    seconds: float
    say: Callable[[str], None]

    def until_it_works(
        self, attempt: Callable[[], T], recover: Callable[[], None] | None = None
    ) -> T:
        """What an attempt returns, in the end.

        recover: runs before every further attempt; its own trouble counts like the attempt's.

        Raises:
            ServedError: the patience ran out, or no waiting can help.
        """
        began = said_at = None
        last, pause_s = "", _FIRST_PAUSE_S
        while True:
            try:
                if began is not None and recover is not None:
                    recover()
                result = attempt()
            except Trouble as trouble:
                now = time.monotonic()
                began = now if began is None else began
                left_s = began + self.seconds - now
                if left_s <= 0.0:
                    raise ServedError(
                        f"{trouble}; given up after {self.seconds:g} s (vllm.patience_s)"
                    ) from None
                if said_at is None or str(trouble) != last or now - said_at >= _SAY_EVERY_S:
                    self.say(f"{trouble}; trying again for {left_s:.0f} s")
                    said_at, last = now, str(trouble)
                time.sleep(min(pause_s, left_s))
                pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
            else:
                if began is not None:
                    self.say(f"it works again after {time.monotonic() - began:.0f} s")
                return result


def everywhere(work: Callable[[], T]) -> T:
    """What work returns in this process, once it has worked in all of them.

    Raises:
        ServedError: it failed in one, so that none waits for that one for ever.
    """
    if process()[1] == 1:
        return work()
    from accelerate.utils import gather_object

    result, failure = None, None
    try:
        result = work()
    except ServedError as error:
        failure = str(error)
    failures = [text for text in gather_object([failure]) if text is not None]
    if failures:
        raise ServedError(failures[0])
    return result  # type: ignore[return-value]  # it worked here as well
