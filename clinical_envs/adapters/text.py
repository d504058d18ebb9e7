"""The text environment: the same encounter, for language agents."""

from __future__ import annotations

import string
from pathlib import Path
from typing import Any

from gymnasium import spaces

from clinical_envs.adapters.dialogues import dialogue_for
from clinical_envs.adapters.encounters import EncounterEnv
from clinical_envs.episode import Episode
from clinical_envs.errors import InvalidAction
from clinical_envs.protocol import Dialogue, Message
from clinical_envs.simulator import Invalid
from clinical_envs.task import Task


class ClinicalTextEnv(EncounterEnv[str, str]):
    """Find out what matters about one patient, in text, then commit to a decision.

    The encounter, its costs and its cases are those of `ClinicalEnv`; this card says what differs.

    ## Action space

    Text. An action is one JSON object and nothing else: `{"action": "ask", "finding": "..."}` or
    `{"action": "commit", "decision": "..."}`. Any string is answered, also one outside the space:
    a string that is no action is an invalid turn. It reveals nothing, costs one question, uses a
    turn, and its reason stands in the next observation and in `info["invalid"]`.

    ## Observation space

    Text: the newest message to the policy. After a reset this is the prompt, later the reply to
    the last turn, and the empty string at the end. `messages` has the whole dialogue as chat
    messages whose roles alternate.

    ## Info

    `invalid` on an invalid turn; `outcome` at the end, and `privileged` on request, as in
    `ClinicalEnv`.
    """

    _dialogue: Dialogue

    def __init__(
        self,
        task: str | Path | Task,
        split: str = "train",
        rho: float = 0.0,
        render_mode: str | None = None,
        privileged: bool = False,
    ) -> None:
        super().__init__(task, split, rho, render_mode, privileged)
        self._dialogue_type = dialogue_for(self.task)
        longest = self._dialogue_type.longest_messages(self.task)
        charset = "".join(sorted({*string.printable, *"".join(longest)}))
        self.observation_space = spaces.Text(max(map(len, longest)), min_length=0, charset=charset)
        self.action_space = spaces.Text(
            self._dialogue_type.max_action_chars, min_length=0, charset=charset
        )

    @property
    def messages(self) -> list[Message]:
        """The dialogue so far, as new chat messages.

        Raises:
            EpisodeOver: before the first reset.
        """
        self._encounter()
        return [message.copy() for message in self._dialogue.messages]

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[str, dict[str, Any]]:
        """Start the next case, or the one that `seed` and the option `index` pick."""
        self._dialogue = self._dialogue_type(self._begin(seed, options))
        return self._newest_message(), self._view()

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """Play one turn from text.

        Raises:
            InvalidAction: the action is not a string; nothing is charged.
            EpisodeOver: the episode has ended, or none has started.
        """
        self._encounter()
        if not isinstance(action, str):
            raise InvalidAction(f"action is of type {type(action).__name__}; give a string")
        reward, terminated, read_as = self._dialogue.step(action)
        info = self._view()
        if isinstance(read_as, Invalid):
            info["invalid"] = read_as.reason
        return self._newest_message(), reward, terminated, False, info

    def episode(
        self, *, policy: str | None = None, rollout: int | None = None, greedy: bool = False
    ) -> Episode:
        """The record of the encounter that has ended, with the texts of the policy.

        Raises:
            EpisodeOver: none has; while an encounter runs, its state is hidden.
        """
        raw = tuple(turn["content"] for turn in self.messages if turn["role"] == "assistant")
        return self._encounter().episode(policy=policy, rollout=rollout, greedy=greedy, raw=raw)

    def _newest_message(self) -> str:
        newest = self._dialogue.messages[-1]
        return newest["content"] if newest["role"] == "user" else ""

    def _view(self) -> dict[str, Any]:
        if self.render_mode == "human":
            self.render()
        return self._extra_info()
