"""The story the demo tells: one warmup, gate 2, GRPO with two rewards, and what came of them.

    FOLDER/warmup/             the start; its `episodes/` are what it played on validation and test
    FOLDER/outcome/, credit/   a run a reward, from that start (`training.runs`)
    FOLDER/logs/, done/        of the jobs (`training.study.runner`)

Every job is a public command in a process of its own, the two arms side by side. A story that was
stopped goes on where it stopped when it is told again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Final

from clinical_envs.episode import Episode, read_episodes
from clinical_envs.errors import ClinicalEnvsError
from oracles.clinical import ClinicalWorld
from oracles.gates import Gate, gate_2
from oracles.metrics import K
from oracles.report import Figure
from oracles.sample import Sample
from training.config import Config, load_config
from training.curves import Course, draw_curves
from training.runs import eligibility, read_rows, read_run
from training.study.plan import Job
from training.study.runner import run_jobs

TASK = "diagnostics"
START: Final = "warmup"
ARMS = ("outcome", "credit")
SETTINGS = ("optim.steps=60", "validation.every=10")
WORKERS: Final = 2
PROGRAM = "training.cli"
_SETS = ("validation", "test")
_SHOWN = {"loss": "loss", "rollout/asks": "asks", "rollout/kl_per_turn": "KL a turn"}


class JobFailed(ClinicalEnvsError, RuntimeError):
    """A job of the story ended badly; what it said is in its log."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A job and how far it is. look: how many of total, and a word about it. unit: of what."""

    job: Job
    total: int
    unit: str
    look: Callable[[], tuple[int, str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """What there is to publish. episodes: on test, by policy. facts: for the summary."""

    title: str
    notes: tuple[str, ...]
    figures: tuple[Figure, ...]
    episodes: dict[str, list[Episode]]
    facts: dict[str, Any]


@dataclass(frozen=True)
class Story:
    """One telling in a folder. world: of the task."""

    folder: Path
    world: ClinicalWorld

    @cached_property
    def configs(self) -> dict[str, Config]:
        """Of the warmup and of each arm."""
        return {name: load_config(_config_name(name), SETTINGS) for name in (START, *ARMS)}

    def warmup_parts(self) -> tuple[Part, ...]:
        """The warmup, then what it plays, once for both arms."""
        run = self.folder / START
        job = self._job(START, "train", "sft", *_chosen(START), "--out", str(run))
        steps = self.configs[START].warmup.steps
        warmup = Part(job=job, total=steps, unit="steps", look=partial(_run_state, run))
        return warmup, *(self._playing(set_name) for set_name in _SETS)

    def arm_parts(self) -> tuple[Part, ...]:
        """A GRPO run a reward."""
        return tuple(self._arm(arm) for arm in ARMS)

    def run(self, parts: Sequence[Part], say: Callable[[str], None]) -> None:
        """Run what is not done yet, two processes at once.

        Raises:
            JobFailed: one ended badly.
        """
        failed = run_jobs([part.job for part in parts], self.folder, workers=WORKERS, say=say)
        if failed:
            name, why = next(iter(failed.items()))
            raise JobFailed(f"{name} ended with: {why}; mend it and start again")

    def gate(self) -> Gate:
        """Gate 2 of the warmup."""
        rows = tuple(self.world.assess(episode) for episode in self._played("validation"))
        return gate_2(Sample(rows, self.world.prevalence), self.world)

    def share_start(self) -> None:
        """Give each arm what the warmup played, as its own start's, so that it is played once."""
        for set_name in _SETS:
            episodes = [_called(episode, "start") for episode in self._played(set_name)]
            text = "".join(episode.to_json() + "\n" for episode in episodes)
            for arm in ARMS:
                file = self.folder / arm / "episodes" / f"{set_name}-start.jsonl"
                if not file.exists():
                    file.parent.mkdir(parents=True, exist_ok=True)
                    file.write_text(text, encoding="utf-8")

    def told(self) -> Told:
        """Everything that came of it: the last update of each arm, and the one validation keeps."""
        runs = {arm: read_run(self.folder / arm) for arm in ARMS}
        episodes = {START: [_called(episode, START) for episode in self._played("test")]}
        updates = {}
        for arm, data in runs.items():
            for name, found in _shown(arm, data).items():
                file = self.folder / arm / "episodes" / f"test-{found['policy']}.jsonl"
                episodes[name] = [
                    _called(episode, name) for episode in read_episodes(file).episodes
                ]
                updates[name] = found["update"]
        title = f"One warmup, two rewards: {' and '.join(ARMS)} on {self.world.name}"
        curves, steps = draw_curves([_course(arm, self.folder / arm) for arm in ARMS])
        about = " ".join(_about(arm, data) for arm, data in runs.items())
        eligible = all(data["eligible"] for data in runs.values())
        return Told(
            title=title if eligible else f"NOT ELIGIBLE: {title}",
            notes=self._notes(runs[ARMS[0]]),
            figures=(replace(curves, caption=f"{curves.caption} {about}"), steps),
            episodes=episodes,
            facts={
                "eligible": eligible,
                "gates": runs[ARMS[0]]["gates"],
                "baseline": START,
                "updates": updates,
                "config_hashes": {arm: data["config_hash"] for arm, data in runs.items()},
            },
        )

    def _job(self, name: str, *arguments: str, needs: tuple[str, ...] = ()) -> Job:
        config = self.configs.get(name)
        return Job(
            name=name,
            module=PROGRAM,
            arguments=arguments,
            needs=needs,
            config_hash=config.hash if config else "",
        )

    def _playing(self, set_name: str) -> Part:
        file, greedy = self._file(set_name), set_name == "test"
        policy = ("--policy", f"hf:{self.folder / START}", "--set", set_name, "-k", str(K))
        job = self._job(
            f"{START}-{set_name}",
            *("evaluate", TASK, *policy, *(["--greedy"] if greedy else []), "--out", str(file)),
            needs=(START,),
        )
        total = len(self.world.cases(set_name)) * (K + greedy)
        return Part(job=job, total=total, unit="episodes", look=partial(_file_state, file))

    def _arm(self, arm: str) -> Part:
        run = self.folder / arm
        places = ("--start", str(self.folder / START), "--out", str(run))
        job = self._job(arm, "train", "grpo", *_chosen(arm), *places)
        steps = self.configs[arm].optim.steps
        return Part(job=job, total=steps, unit="updates", look=partial(_run_state, run))

    def _file(self, set_name: str) -> Path:
        return self.folder / START / "episodes" / f"{set_name}.jsonl"

    def _played(self, set_name: str) -> list[Episode]:
        return read_episodes(self._file(set_name)).episodes

    def _notes(self, data: dict[str, Any]) -> tuple[str, ...]:
        config, optim = self.configs[START], self.configs[ARMS[0]].optim
        return (
            f"{eligibility(data)} One seed makes no claim about a method: with another one every "
            "difference between the arms may turn around. Run make study-small for three seeds.",
            "The warmup is the embedded policy, a Gemma 3 of 0.4 million parameters with random "
            f"weights of seed {config.seed}, after {config.warmup.steps} steps of imitating an "
            f"imperfect teacher. {' and '.join(ARMS).capitalize()} are what GRPO made of it in "
            f"{optim.steps} updates of {optim.groups} cases x {optim.rollouts} rollouts, each with "
            f"its own reward; where validation keeps an earlier update, it stands beside the last. "
            f"On {self.world.name} the audit is against the warmup.",
            "Not fit for: any patient, since the task is synthetic and its utilities are set by "
            "hand; a ranking of training methods, since this is one seed; a statement on language "
            "models, since this policy has one token for each line of its prompt and reads none "
            f"of it; any task but {self.world.name}.",
        )


def _config_name(name: str) -> str:
    return f"{TASK}-{'light' if name == START else name}-embedded"


def _chosen(name: str) -> tuple[str, ...]:
    settings = (part for setting in SETTINGS for part in ("--set", setting))
    return "--config", _config_name(name), *settings


def _called(episode: Episode, policy: str) -> Episode:
    return episode.model_copy(update={"policy": policy})


def _course(name: str, run: Path) -> Course:
    validation, metrics = (read_rows(run / f"{kind}.jsonl") for kind in ("validation", "metrics"))
    return Course(name=name, validation=validation, metrics=metrics)


def _shown(arm: str, data: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The updates of an arm on the page, by what they are called there."""
    last, best = data["last"], data["best"]
    kept = {} if best is None or best["update"] == last["update"] else {f"{arm}_best": best}
    return {arm: last, **kept}


def _about(arm: str, data: dict[str, Any]) -> str:
    """What an arm was paid for, and which of its updates validation keeps."""
    best = data["best"]
    if best is None:
        kept = "Validation keeps no update of it, since each was a high-risk regression"
    else:
        names = " and ".join(name for name, found in _shown(arm, data).items() if found == best)
        kept = f"Validation keeps update {best['update']}, {names} in the tables"
    return f"The reward of {arm}: {data['reward']['words'].removeprefix('reward: ')}. {kept}."


def _run_state(run: Path) -> tuple[int, str]:
    """The step a run has logged last, and its numbers there."""
    if not (run / "run.json").exists():
        return 0, ""
    rows, status = read_rows(run / "metrics.jsonl"), read_run(run)["status"]
    if not rows:
        return 0, "loading"
    row = rows[-1]
    numbers = [f"{label} {row[name]:.3g}" for name, label in _SHOWN.items() if name in row]
    return row["update"], status if status == "evaluating" else ", ".join(numbers)


def _file_state(file: Path) -> tuple[int, str]:
    """How many episodes are written."""
    return (file.read_bytes().count(b"\n"), "") if file.exists() else (0, "")
