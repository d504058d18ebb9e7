"""Tasks by name, id or file. One table: the files in `clinical_envs/tasks`.

A shipped task file is named after its Gym id, so the ids are known without reading a file.
"""

from __future__ import annotations

import os
import re
import reprlib
from collections import Counter
from collections.abc import Mapping
from functools import lru_cache
from importlib import resources
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError
from pydantic_core import ErrorDetails

from clinical_envs.errors import InvalidTask, UnknownTask, did_you_mean
from clinical_envs.task import Task
from clinical_envs.task_parts import TAGS

Location = tuple[int | str, ...]

MAX_FILE_BYTES = 1_000_000
MAX_DEPTH = 60
_TASKS = Path(str(resources.files("clinical_envs") / "tasks"))


def task_ids() -> tuple[str, ...]:
    """Gym ids of the shipped tasks.

    >>> task_ids()
    ('ClinicalDx-v0', 'ClinicalRefill-v0', 'ClinicalTitration-v0')
    """
    return tuple(sorted(path.stem for path in _TASKS.glob("*.yaml")))


def evidence_ids() -> tuple[str, ...]:
    """Gym ids of the shipped evidence worlds: gather evidence, then commit to a text."""
    return tuple(sorted(path.stem for path in (_TASKS / "evidence").glob("*.yaml")))


def example_task_path() -> Path:
    """A small task file to copy and change."""
    return _TASKS / "examples" / "sore_throat.yaml"


def load_task(task: str | Path | Task) -> Task:
    """A task by short name (`diagnostics`), Gym id (`ClinicalDx-v0`), file, or itself.

    A name or id may carry a version, `ClinicalDx-v0@1.0.0`, which must be the one that is here.

    Raises:
        UnknownTask: no such name, id, version or file.
        InvalidTask: the file breaks a rule; the message names the field, the value and the mend.
    """
    if isinstance(task, Task):
        return task
    path = Path(task)
    if path.suffix in {".yaml", ".yml"} or os.path.isfile(path):
        return _load_file(path)
    name, _, version = str(task).partition("@")
    found = _named(name)
    if version not in ("", found.version):
        raise UnknownTask(f"{_shown(path)} is not here; this installation has {found.key}")
    return found


def _named(name: str) -> Task:
    shipped = (*task_ids(), *evidence_ids())
    if name in shipped:
        return _load_shipped(name)
    by_name = {loaded.name: loaded for loaded in map(_load_shipped, shipped)}
    if name in by_name:
        return by_name[name]
    if name == example_task_path().stem:
        return _load_file(example_task_path())
    raise UnknownTask(f"no task {name[:200]!r}; {did_you_mean(name, [*by_name, *shipped])}")


def check_task_text(text: str, source: str) -> tuple[Task | None, list[str]]:
    """Read a task from YAML text.

    Returns:
        The task and no problems, or None and one line a problem.
    """
    try:
        data = read_yaml(text)
        if not isinstance(data, dict):
            return None, [one_line(f"{source}: a task file is a mapping of fields, this is not")]
        return Task.model_validate(data), []
    except ValidationError as error:
        lines = _problems(error, data)
    except ValueError as error:
        lines = [str(error)]
    return None, [one_line(f"{source}: {line}") for line in lines]


def read_yaml(text: str) -> Any:
    """YAML as plain data: no anchors, no tags, no key twice, 60 levels at most.

    `true` and `false` are the only booleans, so that `yes` and `no` are words; dates are text.

    Raises:
        ValueError: anything else; one line with the line number.
    """
    try:
        return yaml.load(text, Loader=_Loader)
    except yaml.YAMLError as error:
        raise ValueError(one_line(str(error))) from None


def _load_file(path: Path) -> Task:
    try:
        size = path.stat().st_size
    except (OSError, ValueError):  # a name that no file can have is a ValueError
        raise UnknownTask(f"no task file {_shown(path)!r}; check the path") from None
    if size > MAX_FILE_BYTES:
        raise InvalidTask(
            f"{_shown(path)}: larger than {MAX_FILE_BYTES} bytes; a task file is small"
        )
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidTask(f"{_shown(path)}: cannot be read as UTF-8 text ({error})") from None
    task, problems = check_task_text(text, path.name)
    if task is None:
        more = f" (and {len(problems) - 1} more; clinical-envs tasks check)" * (len(problems) > 1)
        raise InvalidTask(problems[0] + more)
    return task


@lru_cache
def _load_shipped(task_id: str) -> Task:
    folder = _TASKS if task_id in task_ids() else _TASKS / "evidence"
    return _load_file(folder / f"{task_id}.yaml")


class _Loader(yaml.SafeLoader):
    """The rules of `read_yaml`, checked as each node is met."""

    depth = 0
    yaml_implicit_resolvers = {  # noqa: RUF012 (the base class declares it so)
        first: [
            (tag, pattern)
            for tag, pattern in resolvers
            if tag not in {"tag:yaml.org,2002:bool", "tag:yaml.org,2002:timestamp"}
        ]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        event = self.peek_event()  # type: ignore[no-untyped-call]
        line = event.start_mark.line + 1
        if isinstance(event, yaml.AliasEvent) or event.anchor:
            raise ValueError(f"line {line}: anchors and aliases are not allowed; write it out")
        if event.tag:
            raise ValueError(f"line {line}: tag {event.tag!r} is not allowed; remove it")
        if self.depth > MAX_DEPTH:
            raise ValueError(f"line {line}: nested deeper than {MAX_DEPTH} levels")
        self.depth += 1
        node = super().compose_node(parent, index)
        self.depth -= 1
        return node

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        keys = [self.construct_object(key, deep=True) for key, _ in node.value]
        mapping = super().construct_mapping(node, deep)
        if len(mapping) < len(keys):
            key = next(key for key, times in Counter(keys).items() if times > 1)
            raise ValueError(f"line {node.start_mark.line + 1}: key {key!r} stands twice")
        return mapping

    def construct_integer(self, node: yaml.ScalarNode) -> int:
        """What YAML takes for an integer and Python does not, is refused with its line."""
        try:
            return self.construct_yaml_int(node)
        except ValueError:
            line, value = node.start_mark.line + 1, reprlib.repr(node.value)
            raise ValueError(f"line {line}: {value} is no integer; change it") from None


_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:bool", re.compile("^(true|True|TRUE|false|False|FALSE)$"), list("tTfF")
)
_Loader.add_constructor("tag:yaml.org,2002:int", _Loader.construct_integer)


def _problems(error: ValidationError, data: Any) -> list[str]:
    """One line a problem; unknown fields first, since a misspelt one is also a missing one."""
    problems = sorted(error.errors(), key=lambda problem: problem["type"] != "extra_forbidden")
    missing: dict[Location, list[str]] = {}
    for problem in problems:
        if problem["type"] == "missing":
            *parent, name = problem["loc"]
            missing.setdefault(tuple(parent), []).append(str(name))
    return [_describe(problem, data, missing) for problem in problems]


def _describe(problem: ErrorDetails, data: Any, missing: Mapping[Location, list[str]]) -> str:
    """One pydantic error: where, the value, what to do."""
    location = [part for part in problem["loc"] if part not in TAGS]
    where = ".".join(_name_part(data, location, i) for i in range(len(location)))
    message = str(problem["msg"]).removeprefix("Value error, ")
    if problem["type"] == "value_error":
        return f"{where}: {message}" if where else message
    if problem["type"] == "extra_forbidden":
        *parent, name = problem["loc"]
        known = missing.get(tuple(parent), []) if parent else list(Task.model_fields)
        return f"{where}: unknown field" + (f"; {did_you_mean(name, known)}" if known else "")
    if problem["type"] == "missing":
        return f"{where}: missing; add it"
    if problem["type"] in {"dict_type", "model_type"}:
        message = "should be a mapping"
    return f"{where}: {message[0].lower()}{message[1:]}, got {reprlib.repr(problem['input'])}"


def _name_part(data: Any, location: list[Any], depth: int) -> str:
    """The id of a list item where it has one, else its position."""
    for part in location[:depth]:
        try:
            data = data[part]
        except (KeyError, IndexError, TypeError):
            return str(location[depth])
    part = location[depth]
    if isinstance(part, int) and isinstance(data, list) and part < len(data):
        item = data[part]
        if isinstance(item, dict) and isinstance(item.get("id"), str):
            return str(item["id"])
    return str(part)


def one_line(text: str) -> str:
    """A message without line breaks, whatever a file put into it."""
    return " ".join(text.split())


def _shown(path: Path) -> str:
    return one_line(str(path))[:200]
