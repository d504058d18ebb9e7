"""Every error a user can cause, in one tree.

ClinicalEnvsError
├── InvalidTask        a task file breaks a rule of the format
├── UnknownTask        no task of that name, id or path
├── InvalidAction      an action outside the action space
├── EpisodeOver        a step after the end, or before the first reset
├── InvalidEpisode     an episode record contradicts its task or itself
├── InvalidArgument    an argument of a function or command
├── TooLarge           an exact computation that does not fit; the message has the numbers
└── MissingExtra       an optional dependency that is not installed

A message says what is wrong, where, and what to do, on one line.
"""

from __future__ import annotations

import difflib
import importlib
from collections.abc import Iterable
from types import ModuleType


class ClinicalEnvsError(Exception):
    """Base of every error this package raises on purpose."""


class InvalidTask(ClinicalEnvsError, ValueError):
    """A task file breaks a rule of the format."""


class UnknownTask(ClinicalEnvsError, LookupError):
    """No task has this name, id or path."""


class InvalidAction(ClinicalEnvsError, ValueError):
    """An action lies outside the action space; nothing was charged."""


class EpisodeOver(ClinicalEnvsError, RuntimeError):
    """A step came after the end of an episode, or before its start."""


class InvalidEpisode(ClinicalEnvsError, ValueError):
    """An episode record contradicts its task or itself."""


class InvalidArgument(ClinicalEnvsError, ValueError):
    """An argument of a function or command has no meaning."""


class TooLarge(ClinicalEnvsError, MemoryError):
    """An exact computation does not fit; nothing was approximated instead."""


class MissingExtra(ClinicalEnvsError, ImportError):
    """An optional dependency is not installed."""


def did_you_mean(name: object, known: Iterable[str]) -> str:
    """A hint that follows an unknown name.

    >>> did_you_mean("diagnostic", ["diagnostics", "refill"])
    "did you mean 'diagnostics'?"
    >>> did_you_mean("zzz", ["diagnostics", "refill"])
    "known: 'diagnostics', 'refill'"
    """
    names = list(known)
    near = difflib.get_close_matches(str(name)[:200], names, n=1)
    if near:
        return f"did you mean {near[0]!r}?"
    return "known: " + ", ".join(repr(known_name) for known_name in names)


def require(module: str, extra: str) -> ModuleType:
    """Import an optional module, or raise one line that says what to install.

    Raises:
        MissingExtra: the module is not installed.
    """
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is not None and not module.startswith(error.name):
            raise
        package = module.partition(".")[0]
        raise MissingExtra(
            f"{package} is not installed; run: pip install 'clinical-envs[{extra}]'"
        ) from None
