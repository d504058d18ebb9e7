"""A checkpoint as a policy: `hf:PATH[#ADAPTER]`, played in batches by the in-process engine.

How a checkpoint wants to be played stands in `play.json` beside it, written by training: limits,
and whether it was trained in two phases. A decoupled checkpoint explores, then exploits what
exploring revealed; the phases compose into one episode, so that the terminal verifier judges it
like any other.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from clinical_envs.case import Case
from clinical_envs.episode import Episode
from clinical_envs.errors import InvalidArgument
from clinical_envs.simulator import Encounter, Invalid
from clinical_envs.task import Task
from oracles.policy import Rollout
from training.chat import ChatTokens
from training.dialogue import EpisodeSpeaker, ExploitSpeaker, ExploreSpeaker, MenuSpeaker
from training.engine import Engine, Sampling, TokenRecord
from training.inprocess import InProcessEngine
from training.models import load_policy
from training.runs import weights_digest

_SETTINGS = "play.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlaySettings:
    """How a checkpoint is played; the defaults hold for one that says nothing.

    decoupled: exploring and exploiting are two dialogues. menu: a world with words of its own is
    played in the protocol of findings. turn_tokens, context_tokens: limits of
    one turn and of a dialogue. dtype: of the weights. batch_size: rollouts played at once, which
    memory for their caches limits.
    """

    decoupled: bool = False
    menu: bool = False
    turn_tokens: int = 96
    context_tokens: int = 2048
    dtype: str = "float32"
    batch_size: int = 64

    def write(self, folder: Path) -> None:
        """Put `play.json` beside a checkpoint."""
        (folder / _SETTINGS).write_text(json.dumps(asdict(self), indent=1) + "\n", encoding="utf-8")


def read_settings(folder: Path) -> PlaySettings:
    """What `play.json` of a checkpoint folder says; defaults where there is none.

    Raises:
        InvalidArgument: it says something else.
    """
    file = folder / _SETTINGS
    if not file.exists():
        return PlaySettings()
    try:
        return PlaySettings(**json.loads(file.read_text(encoding="utf-8")))
    except (TypeError, ValueError) as error:
        raise InvalidArgument(f"{file}: {error}; write it again by training") from None


class CheckpointPolicy:
    """A language model as a batch policy.

    engine: samples its turns. tokens: its chat template, to read sampled turns as text.
    weights_digest: of its checkpoint and adapter, where they lie in folders.
    """

    def __init__(
        self,
        task: Task,
        engine: Engine,
        tokens: ChatTokens,
        settings: PlaySettings,
        name: str,
        weights_digest: str = "",
    ) -> None:
        self.task, self.engine, self.tokens, self.settings = task, engine, tokens, settings
        self.name, self.weights_digest = name, weights_digest

    @property
    def batch_size(self) -> int:
        """How many rollouts it is given at once."""
        return self.settings.batch_size

    def play(self, rollouts: Sequence[Rollout]) -> list[Episode]:
        """The finished records, in order."""
        played: dict[int, Episode] = {}
        for greedy in (False, True):
            chosen = [i for i, rollout in enumerate(rollouts) if rollout.greedy is greedy]
            if chosen:
                sampling = Sampling(
                    greedy=greedy,
                    max_turn_tokens=self.settings.turn_tokens,
                    max_context_tokens=self.settings.context_tokens,
                )
                play = self._phases if self.settings.decoupled else self._whole
                played |= zip(chosen, play([rollouts[i] for i in chosen], sampling), strict=True)
        return [played[i] for i in range(len(rollouts))]

    def _whole(self, rollouts: Sequence[Rollout], sampling: Sampling) -> list[Episode]:
        speaker_type = MenuSpeaker if self.settings.menu else EpisodeSpeaker
        speakers = [speaker_type(self.task, rollout.case) for rollout in rollouts]
        records = self.engine.play(speakers, [rollout.seed for rollout in rollouts], sampling)
        return [
            _with_surprise(
                speaker.finish(policy=self.name, rollout=rollout.number, greedy=rollout.greedy),
                record,
            )
            for speaker, rollout, record in zip(speakers, rollouts, records, strict=True)
        ]

    def _phases(self, rollouts: Sequence[Rollout], sampling: Sampling) -> list[Episode]:
        explorers = [ExploreSpeaker(self.task, rollout.case) for rollout in rollouts]
        seeds = [rollout.seed for rollout in rollouts]
        explored = self.engine.play(explorers, seeds, sampling)
        exploiters = [ExploitSpeaker(self.task, explorer.info) for explorer in explorers]
        exploited = self.engine.play(exploiters, [(seed + 1) % 2**64 for seed in seeds], sampling)
        return [
            self._episode(rollout, explorers[i], explored[i], exploiters[i], exploited[i])
            for i, rollout in enumerate(rollouts)
        ]

    def _episode(
        self,
        rollout: Rollout,
        explorer: ExploreSpeaker,
        explored: TokenRecord,
        exploiter: ExploitSpeaker,
        exploited: TokenRecord,
    ) -> Episode:
        encounter = composed(self.task, rollout.case, explorer, exploiter)
        texts = self._texts(explored)[: len(explorer.actions)]  # stop is no turn
        texts += self._texts(exploited) if _left_to_commit(explorer) else []
        texts += [""] * (len(encounter.actions) - len(texts))
        episode = encounter.episode(
            policy=self.name, rollout=rollout.number, greedy=rollout.greedy, raw=tuple(texts)
        )
        return _with_surprise(episode, explored, exploited)

    def _texts(self, record: TokenRecord) -> list[str]:
        """What was said in each turn."""
        ids = list(record.completion_ids)
        return [self.tokens.text(ids[start:end]) for start, end in record.turns]


def _with_surprise(episode: Episode, *records: TokenRecord) -> Episode:
    """Notes Σ -log p of what the policy said, in nats, and in how many tokens it said it.

    Where it sampled, their ratio estimates its entropy.
    """
    surprise = -sum(sum(record.logprobs) for record in records)
    tokens = sum(sum(record.env_mask) for record in records)
    noted = {"surprise": round(surprise, 4), "sampled_tokens": tokens}
    return episode.model_copy(update={"meta": episode.meta | noted})


def composed(
    task: Task, case: Case, explorer: ExploreSpeaker, exploiter: ExploitSpeaker
) -> Encounter:
    """One finished encounter of the two phases: the asks of the first, then the commit.

    A commit that failed, or exploring that was cut at the context limit, ends as no decision:
    the turns that are left are wasted. `stop` is free and no turn.
    """
    encounter = Encounter(task, case)
    for action in explorer.actions:
        encounter.step(action)
    last = exploiter.action if _left_to_commit(explorer) else None
    while not encounter.over:
        encounter.step(last or Invalid("too_long"))
    return encounter


def _left_to_commit(explorer: ExploreSpeaker) -> bool:
    """Whether exploring came to its end, by stop or by turns, and was not cut."""
    return explorer.stopped or explorer.info.turns_left <= 1


def load_checkpoint_policy(
    task: Task, spec: str, *, name: str | None = None, settings: PlaySettings | None = None
) -> CheckpointPolicy:
    """The policy of `hf:PATH[#ADAPTER]`: folders, or for PATH a model of the hub in the cache.

    name: what it is called, by default its specification. settings: instead of its `play.json`.

    Raises:
        InvalidArgument: a folder is missing or holds no checkpoint or adapter.
    """
    base, _, adapter = spec.removeprefix("hf:").partition("#")
    folder = Path(base)
    if (folder / "adapter_config.json").is_file():
        raise InvalidArgument(f"{base} is an adapter; write hf:CHECKPOINT#{base}")
    on_hub = not folder.exists() and base.count("/") == 1
    if not on_hub and not (folder / "config.json").is_file():
        raise InvalidArgument(
            f"{base!r} is no checkpoint folder; give hf:FOLDER or hf:FOLDER#ADAPTER_FOLDER"
        )
    settings = settings or read_settings(Path(adapter or base))
    model, tokenizer = load_policy(base, settings.dtype)
    if adapter:
        model = _with_adapter(model, adapter)
    tokens = ChatTokens(tokenizer)
    engine = InProcessEngine(model.to(_device()).eval(), tokens)
    digest = weights_digest(folder, *([Path(adapter)] if adapter else []))
    return CheckpointPolicy(task, engine, tokens, settings, name or spec, digest)


def _with_adapter(model: Any, folder: str) -> Any:
    from peft import PeftModel

    if not (Path(folder) / "adapter_config.json").is_file():
        raise InvalidArgument(f"{folder!r} is no adapter folder; it has no adapter_config.json")
    return PeftModel.from_pretrained(model, folder)


def _device() -> torch.device:
    """The accelerator of this process; without one the CPU, on one thread unless told otherwise."""
    if torch.cuda.is_available():
        return torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))
    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))
    return torch.device("cpu")
