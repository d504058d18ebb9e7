"""What a policy is: a map from all that may be known to an action."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

import numpy as np

from clinical_envs.belief import InfoState
from clinical_envs.episode import Episode
from clinical_envs.errors import InvalidArgument
from clinical_envs.protocol import Message, prompt
from clinical_envs.simulator import Action, Ask, Commit, Invalid
from clinical_envs.task import Task


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """All that a policy may know: the task, the information state, and the dialogue in text."""

    task: Task
    info: InfoState
    dialogue: Callable[[], tuple[Message, ...]] | None = field(default=None, repr=False)

    @property
    def messages(self) -> tuple[Message, ...]:
        """The dialogue so far, for policies that read text; ends with a user turn."""
        if self.dialogue is None:
            return ({"role": "user", "content": prompt(self.task, self.info)},)
        return self.dialogue()

    @property
    def family(self) -> str:
        """Name of the family."""
        return self.task.family_ids[self.info.family]

    @property
    def seen(self) -> Mapping[str, bool]:
        """Findings seen, with their answers."""
        return {self.task.finding_ids[q]: present for q, present in self.info.seen()}

    @property
    def turns_left(self) -> int:
        """Turns left, this one included."""
        return self.info.turns_left

    def ask(self, finding: str) -> Ask:
        """The action that asks for a finding, by name."""
        return Ask(self.task.finding(finding))

    def commit(self, decision: str) -> Commit:
        """The action that commits to a decision, by name."""
        return Commit(self.task.decision(decision))


class Policy(Protocol):
    """Maps a view to an action, or to text that the protocol reads.

    deterministic: the action depends on the view alone, so that every rollout of a case is the
    same. greedy: play the most likely action; a deterministic policy ignores it.
    """

    @property
    def name(self) -> str:
        """What the policy is called in records and tables."""
        ...

    @property
    def deterministic(self) -> bool:
        """Whether every rollout of a case is the same."""
        ...

    def act(self, view: View, rng: np.random.Generator, *, greedy: bool = False) -> Action | str:
        """The next action."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Rollout:
    """One rollout to be played. seed: fixes what the policy draws, whatever else is played."""

    case: Any
    number: int
    greedy: bool
    seed: int


@runtime_checkable
class BatchPolicy(Protocol):
    """Plays many rollouts at once, each to its end; a language model, for example.

    batch_size: how many rollouts it is given at once, at least one case's.
    """

    @property
    def name(self) -> str:
        """What the policy is called in records and tables."""
        ...

    @property
    def batch_size(self) -> int:
        """How many rollouts it is given at once."""
        ...

    def play(self, rollouts: Sequence[Rollout]) -> Iterable[Episode]:
        """The finished records, in order, under the policy's name.

        One that can fail on the way may give what is finished before it raises.
        """
        ...


Rule = Callable[[InfoState], Action]


@dataclass(frozen=True, slots=True)
class Deterministic:
    """A policy given by a rule on information states; each state is decided once."""

    name: str
    rule: Rule
    deterministic: bool = True
    _decided: dict[InfoState, Action] = field(default_factory=dict, repr=False)

    def act(self, view: View, rng: np.random.Generator, *, greedy: bool = False) -> Action | str:
        """The action of the rule."""
        action = self._decided.get(view.info)
        if action is None:
            action = self._decided[view.info] = self.rule(view.info)
        return action


@dataclass(frozen=True, slots=True)
class UniformRandom:
    """Every action alike, findings already seen left out; greedy play is the same."""

    task: Task
    name: str = "random"
    deterministic: bool = False

    def act(self, view: View, rng: np.random.Generator, *, greedy: bool = False) -> Action | str:
        """A uniformly drawn action."""
        open_asks: list[Action] = [
            Ask(q) for q in range(len(self.task.findings)) if not view.info.knows(q)
        ]
        actions = open_asks + [Commit(a) for a in range(len(self.task.decisions))]
        return actions[int(rng.integers(len(actions)))]


@dataclass(frozen=True, slots=True)
class FunctionPolicy:
    """A user's function of a view; it may return an action or text."""

    name: str
    function: Callable[..., Any]
    deterministic: bool = False

    def act(self, view: View, rng: np.random.Generator, *, greedy: bool = False) -> Action | str:
        """Whatever the function returns, checked."""
        action = self.function(view, rng)
        if isinstance(action, Ask | Commit | Invalid | str):
            return action
        raise InvalidArgument(
            f"policy {self.name} returned {action!r}; return view.ask(...), view.commit(...) or "
            "text"
        )
