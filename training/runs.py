"""A run is a folder, and everything known about it lies there.

    config.toml              every setting; `--config RUN/config.toml` runs it again
    run.json                 status, gates, eligibility, reward, best and last checkpoint, versions
    metrics.jsonl            one row a logged step
    validation.jsonl         one row an evaluation on the validation set, step 0 is the start
    rollouts.jsonl           with a rollout server: one row a rollout, and the policy that played it
    episodes/*.jsonl         the episodes of every evaluation
    policies/update-N/       the adapter of every evaluated update; best/ and last/ at the end
    checkpoints/             the trainer's own, for resuming
    tensorboard/, report.html, README.md (the model card)
    .lock                    held by the process that writes

A killed run goes on from its last checkpoint; rows and files that lie beyond it are dropped first,
so that nothing stands twice.
"""

from __future__ import annotations

import errno
import hashlib
import json
import math
import os
import platform
import shutil
import time
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Literal

import typer

from clinical_envs.errors import InvalidArgument
from training.config import Config

Kind = Literal["sft", "grpo"]
Log = Literal["metrics", "validation", "rollouts"]
_LIBRARIES = ("clinical-envs", "numpy", "torch", "transformers", "trl", "peft", "accelerate")


@dataclass(frozen=True)
class Run:
    """A run that is being made. Only the first process writes; the others keep quiet.

    lock: on the folder, held as long as the run is.
    """

    folder: Path
    config: Config
    lock: object = None
    _begun: float = field(default_factory=time.monotonic)

    @property
    def writes(self) -> bool:
        """Whether this process is the one that writes."""
        return process()[0] == 0

    @property
    def checkpoints(self) -> Path:
        """The trainer's folder."""
        return self.folder / "checkpoints"

    @property
    def data(self) -> dict[str, Any]:
        """What `run.json` holds."""
        return read_run(self.folder)

    def episodes(self, name: str) -> Path:
        """The file of one evaluation."""
        return self.folder / "episodes" / f"{name}.jsonl"

    def policy(self, update: int) -> Path:
        """The adapter folder of an evaluated update."""
        return self.folder / "policies" / policy_name(update)

    def note(self, **facts: Any) -> None:
        """Put facts into `run.json`, whole or not at all."""
        if self.writes:
            _write_json(self.folder / "run.json", self.data | facts)

    def clock(self) -> None:
        """Add the time since the run was opened to its wall time, of all its sessions."""
        earlier = self.data["sessions_s"]
        seconds = [*earlier[:-1], round(time.monotonic() - self._begun, 1)]
        self.note(sessions_s=seconds, wall_s=round(sum(seconds), 1))

    def say(self, line: str) -> None:
        """Tell the user, once however many processes there are."""
        if self.writes:
            typer.echo(line, err=True)

    def append(self, name: Log, row: dict[str, Any]) -> None:
        """Add a row to a JSON Lines file; NaN is written as null."""
        if self.writes:
            with (self.folder / f"{name}.jsonl").open("a", encoding="utf-8") as lines:
                lines.write(json.dumps(_no_nan(row), allow_nan=False) + "\n")

    def rows(self, name: Log) -> list[dict[str, Any]]:
        """The rows of a JSON Lines file; a last line that a kill left unfinished is no row."""
        return read_rows(self.folder / f"{name}.jsonl")

    def rewind(self, update: int, step: int) -> None:
        """Drop rows and files from after the checkpoint that training goes on from.

        update: the last whole one. step: of the optimiser, which the rows of some logs count.
        """
        if not self.writes:
            return
        logs: tuple[Log, ...] = ("metrics", "validation", "rollouts")
        for name in (log for log in logs if (self.folder / f"{log}.jsonl").exists()):
            kept = [
                row
                for row in self.rows(name)
                if (row["step"] <= step if "step" in row else row["update"] <= update)
            ]
            text = "".join(json.dumps(row) + "\n" for row in kept)
            _write_whole(self.folder / f"{name}.jsonl", text)
        for path in self.folder.glob("*/*update-*"):
            number = int(path.name.split("update-")[1].split(".")[0])
            if number > update and path.parent.name == "policies":
                shutil.rmtree(path)
            elif number > update and path.parent.name == "episodes":
                path.unlink()


def open_run(folder: Path, config: Config, *, kind: Kind, task: str, start: str) -> Run:
    """Begin a run, or take it up again where it stopped.

    Raises:
        InvalidArgument: the folder holds another run, is written by another process, or cannot
            be made.
    """
    run = Run(folder, config, _claimed(folder) if process()[0] == 0 else None)
    known = {"kind": kind, "task": task, "config_hash": config.hash, "start": start}
    if run.writes:
        known["start_digest"] = weights_digest(Path(start))
    if run.writes and (folder / "run.json").exists():
        _take_up(run, known)
    elif run.writes:
        _begin(run, known)
    wait_for_all()
    return run


def _claimed(folder: Path) -> object:
    """The folder for this process alone: a second one would write every row twice."""
    from filelock import FileLock, Timeout

    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InvalidArgument(f"cannot make {folder}: {error.strerror}") from None
    lock = FileLock(folder / ".lock", is_singleton=True)
    try:
        lock.acquire(blocking=False)
    except Timeout:
        raise InvalidArgument(
            f"{folder} is being written by another process; wait for it or stop it, or choose "
            "another folder"
        ) from None
    except OSError as error:
        if error.errno not in (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP):
            raise InvalidArgument(f"cannot lock {folder}: {error.strerror}") from None
        warnings.warn(
            f"{folder} is on a file system without locks: one run at a time", stacklevel=3
        )
    return lock


def weights_digest(*places: Path) -> str:
    """SHA-256 of the weights and configurations in folders; empty where none is a folder."""
    folders = [place for place in places if place.is_dir()]
    found = hashlib.sha256()
    for folder in folders:
        files = [folder / "config.json", *sorted(folder.glob("*.safetensors"))]
        for file in (file for file in files if file.is_file()):
            with file.open("rb") as content:
                found.update(hashlib.file_digest(content, "sha256").digest())
    return found.hexdigest() if folders else ""


def _begin(run: Run, known: dict[str, str]) -> None:
    text = f"# configuration {run.config.hash}\n{as_toml(run.config)}"
    (run.folder / "config.toml").write_text(text, encoding="utf-8")
    facts = {"schema": 1, "status": "training", "eligible": None, "seed": run.config.seed}
    begun = {"versions": versions(), "sessions_s": [0.0], "wall_s": 0.0}
    _write_json(run.folder / "run.json", facts | known | begun)


def wait_for_all() -> None:
    """Until the first process has written what the others read; one process need not wait."""
    if process()[1] == 1:
        return
    import torch
    from accelerate import PartialState

    # as the trainer will ask for it: the state is shared
    PartialState(cpu=not torch.cuda.is_available()).wait_for_everyone()


def _take_up(run: Run, known: dict[str, str]) -> None:
    problem = _mismatch(run, known)
    if problem and _untouched(run):
        _begin(run, known)
        return
    if problem:
        raise InvalidArgument(problem)
    run.note(sessions_s=[*run.data["sessions_s"], 0.0])


def _mismatch(run: Run, known: dict[str, str]) -> str:
    """Why a folder holds another run; empty where it holds this one."""
    data = run.data
    for name, value in known.items():
        if name == "start_digest" and data.get(name, value) != value:
            return (
                f"{run.folder} began from other weights than {data['start']} holds now; choose "
                "another folder, or bring the old start back"
            )
        if name != "start_digest" and data.get(name) != value:
            return (
                f"{run.folder} holds a run with {name} {data.get(name)}, not {value}; choose "
                "another folder"
            )
    return ""


def _untouched(run: Run) -> bool:
    """Whether it failed before it made anything, as on a start that is not there."""
    made = ("metrics.jsonl", "checkpoints/checkpoint-*", "episodes/*")
    found = any(path for pattern in made for path in run.folder.glob(pattern))
    return run.data["status"] == "training" and not found


def read_run(folder: Path) -> dict[str, Any]:
    """What `run.json` of a run folder holds.

    Raises:
        InvalidArgument: the folder is no run.
    """
    try:
        data: dict[str, Any] = json.loads((folder / "run.json").read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise InvalidArgument(f"{folder} is no run folder: run.json: {reason}") from None
    return data


def read_rows(file: Path) -> list[dict[str, Any]]:
    """Rows of a JSON Lines file, an unfinished last one left out; none where there is no file."""
    if not file.exists():
        return []
    whole = file.read_text(encoding="utf-8", errors="replace").rpartition("\n")[0]
    return [json.loads(line) for line in whole.splitlines()]


def is_whole(checkpoint: Path) -> bool:
    """Whether a trainer's checkpoint was written to its end: its state comes last."""
    try:
        json.loads((checkpoint / "trainer_state.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return True


def last_checkpoint(folder: Path) -> str | None:
    """The newest of a trainer's checkpoints that a kill did not leave unfinished."""
    whole = [path for path in folder.glob("checkpoint-*") if is_whole(path)]
    newest = max(whole, key=lambda path: int(path.name.removeprefix("checkpoint-")), default=None)
    return None if newest is None else str(newest)


def policy_name(update: int) -> str:
    """What the policy after an update is called, in records and in folders."""
    return f"update-{update:06d}"


def best_row(rows: Sequence[dict[str, Any]]) -> dict[str, Any] | None:
    """The row of highest validation value that is no high-risk regression; the earliest of equals.

    The start is no candidate. None where every update regressed.
    """
    fit = [row for row in rows if row["update"] and row["flags"]["high_risk_regression"] != "FLAG"]
    return max(fit, key=lambda row: float(row["value"]["value"]), default=None)


def eligibility(data: dict[str, Any]) -> str:
    """What the gates allow to be said, in one sentence or two."""
    if data["eligible"]:
        return "Both gates passed before the first step."
    failed = [gate["name"] for gate in data["gates"] if gate["passed"] is not True]
    return (
        f"NOT ELIGIBLE: {' and '.join(failed)} did not pass before the first step. What follows "
        "is a record of what happened; no claim is made from it."
    )


def as_toml(config: Config) -> str:
    """The configuration as a TOML file that reads back to the same one."""
    plain, sections = [], []
    for name, value in asdict(config).items():
        if isinstance(value, dict):
            sections.append(f"\n[{name}]\n" + _toml_lines(value.items()))
        else:
            plain.append((name, value))
    return _toml_lines(plain) + "".join(sections)


def quiet() -> None:
    """Turn off the libraries' bars and their notices of coming names; a run tells its own steps."""
    from datasets import disable_progress_bars
    from transformers.utils.logging import disable_progress_bar

    disable_progress_bar()
    disable_progress_bars()
    warnings.filterwarnings("ignore", r".*checkpointing` is deprecated", FutureWarning)


def process() -> tuple[int, int]:
    """Number of this process and how many there are, as the launcher says."""
    return int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))


def versions() -> dict[str, str]:
    """Of Python and of the libraries that decide what a run gives."""
    found = {"python": platform.python_version()}
    for name in _LIBRARIES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "not installed"
    return found


def _toml_lines(items: Iterable[tuple[str, Any]]) -> str:
    # JSON writes strings, numbers, booleans and lists as TOML does; an absent value has no line
    return "".join(f"{name} = {json.dumps(value)}\n" for name, value in items if value is not None)


def _write_json(file: Path, data: dict[str, Any]) -> None:
    text = json.dumps(_no_nan(data), indent=1, ensure_ascii=False, allow_nan=False)
    _write_whole(file, text + "\n")


def _write_whole(file: Path, text: str) -> None:
    """As it was or as it shall be, whenever a kill or a full disk comes."""
    fresh = file.with_suffix(".tmp")
    fresh.write_text(text, encoding="utf-8")
    fresh.replace(file)


def _no_nan(value: Any) -> Any:
    convert: Callable[[Any], Any] = _no_nan
    if isinstance(value, dict):
        return {str(key): convert(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [convert(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
