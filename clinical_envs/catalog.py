"""Tasks by name, id or file. One table: the files in `clinical_envs/tasks`.

A shipped task file is named after its Gym id, so the ids are known without reading a file.
"""

from __future__ import annotations

from functools import lru_cache
from importlib import resources
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from clinical_envs.errors import InvalidTask, UnknownTask, did_you_mean
from clinical_envs.task import Task

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

    Raises:
        UnknownTask: no such name, id or file.
        InvalidTask: the file breaks a rule; the message names the field, the value and the mend.
    """
    if isinstance(task, Task):
        return task
    path = Path(task)
    if path.suffix in {".yaml", ".yml"} or path.is_file():
        return _load_file(path)
    name = str(task).partition("@")[0]
    shipped = (*task_ids(), *evidence_ids())
    if name in shipped:
        return _load_shipped(name)
    by_name = {loaded.name: loaded for loaded in map(_load_shipped, shipped)}
    if name in by_name:
        return by_name[name]
    if name == example_task_path().stem:
        return _load_file(example_task_path())
    raise UnknownTask(f"no task {name!r}; {did_you_mean(name, [*by_name, *shipped])}")


def check_task_text(text: str, source: str) -> tuple[Task | None, list[str]]:
    """Read a task from YAML text.

    Returns:
        The task and no problems, or None and one line a problem.
    """
    try:
        data = _read_yaml(text)
    except (yaml.YAMLError, InvalidTask, RecursionError) as error:
        return None, [f"{source}: {_one_line(error)}"]
    if not isinstance(data, dict):
        return None, [f"{source}: a task file is a mapping of fields, this is not"]
    try:
        return Task.model_validate(data), []
    except ValidationError as error:
        return None, [f"{source}: {_describe(problem, data)}" for problem in error.errors()]


def _load_file(path: Path) -> Task:
    try:
        if path.stat().st_size > MAX_FILE_BYTES:
            raise InvalidTask(f"{path}: larger than {MAX_FILE_BYTES} bytes; a task file is small")
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise UnknownTask(f"no task file {str(path)!r}; check the path") from None
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidTask(f"{path}: cannot be read as UTF-8 text ({error})") from None
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
    """YAML as data only: `yes` and `no` are words, dates are text, a repeated key is an error."""

    yaml_implicit_resolvers = {  # noqa: RUF012 (the base class declares it so)
        first: [
            (tag, pattern)
            for tag, pattern in resolvers
            if tag not in {"tag:yaml.org,2002:bool", "tag:yaml.org,2002:timestamp"}
        ]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        keys = [self.construct_object(key, deep=True) for key, _ in node.value]
        for key in keys:
            if keys.count(key) > 1:
                raise InvalidTask(f"line {node.start_mark.line + 1}: key {key!r} stands twice")
        return super().construct_mapping(node, deep)


def _read_yaml(text: str) -> Any:
    depth = 0
    for event in yaml.parse(text, Loader=yaml.SafeLoader):
        line = event.start_mark.line + 1 if event.start_mark else 0
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None):
            raise InvalidTask(f"line {line}: anchors and aliases are not allowed; write it out")
        tag = getattr(event, "tag", None)
        if tag:
            raise InvalidTask(f"line {line}: tag {tag!r} is not allowed; remove it")
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        if depth > MAX_DEPTH:
            raise InvalidTask(f"line {line}: nested deeper than {MAX_DEPTH} levels")
    return yaml.load(text, Loader=_Loader)


def _describe(problem: Any, data: Any) -> str:
    """One line for one pydantic error: where, the value, what to do."""
    branches = ("Checklist", "AtLeast", "MorePresent", "literal[", "dict[")  # of pydantic's unions
    location = [part for part in problem["loc"] if not str(part).startswith(branches)]
    where = ".".join(_name_part(data, location, i) for i in range(len(location)))
    message = str(problem["msg"]).removeprefix("Value error, ")
    if problem["type"] == "value_error":
        return f"{where}: {message}" if where else message
    if problem["type"] == "extra_forbidden":
        known = list(Task.model_fields)
        hint = f"; {did_you_mean(location[-1], known)}" if len(location) == 1 else ""
        return f"{where}: unknown field{hint}"
    if problem["type"] == "missing":
        return f"{where}: missing; add it"
    shown = repr(problem["input"])
    shown = shown if len(shown) <= 60 else shown[:57] + "..."
    return f"{where}: {message[0].lower()}{message[1:]}, got {shown}"


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


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__
