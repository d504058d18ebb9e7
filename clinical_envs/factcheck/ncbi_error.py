"""What can go wrong between a question to NCBI and its answer."""

from __future__ import annotations

from clinical_envs.errors import ClinicalEnvsError


class SearchUnavailable(ClinicalEnvsError, ConnectionError):
    """A back-end could not answer, so nothing is known about hits: unscored, never zero."""


class Fault(Exception):
    """An answer that is none, or no answer; asking again may help, after ``pause_s`` if named."""

    def __init__(self, reason: str, *, pause_s: float = 0.0) -> None:
        super().__init__(reason)
        self.pause_s = pause_s
