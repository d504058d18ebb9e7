"""A model behind an OpenAI-compatible chat endpoint as a policy: `openai:URL#MODEL`.

Many encounters are played at once, one request a turn each, in the text protocol of the task.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from queue import Empty, SimpleQueue
from typing import Any

from clinical_envs.adapters.dialogues import dialogue_for
from clinical_envs.episode import Episode
from clinical_envs.protocol import REASONS, Dialogue
from clinical_envs.simulator import Encounter, Invalid
from clinical_envs.task import Task
from oracles.policy import Rollout
from training.endpoint import ChatModel, ContextExceededError, EndpointError
from training.turn_schema import turn_schema

MAX_TOKENS = 1024
_OUTSIDE_SCHEMA = REASONS.keys() - {"empty", "too_long"}  # a refusal and a cut can be either


class EndpointPolicy:
    """A chat model as a batch policy; sampled at temperature 1, and at 0 for greedy rollouts.

    task: what is played, worded by its own dialogue. model: answers from several threads. name:
    in records and tables; with a schema it says so. batch_size: encounters played at once.
    max_tokens: of a turn; one that is cut is an invalid turn. json_schema: hold the server to the
    turns of the protocol, which spares the model malformed ones and is therefore recorded.

    A dialogue that outgrows the model's context ends as no decision: what is left of its turns is
    wasted. A failure of the endpoint is an error of nobody's play; it is raised, and no record is
    made of the encounters that it broke off.
    """

    def __init__(
        self,
        task: Task,
        model: ChatModel,
        name: str,
        *,
        batch_size: int = 32,
        max_tokens: int = MAX_TOKENS,
        json_schema: bool = False,
    ) -> None:
        self.task, self.model, self.batch_size = task, model, batch_size
        self.name = f"{name} with a JSON schema" if json_schema else name
        self.max_tokens, self.json_schema = max_tokens, json_schema

    def play(self, rollouts: Sequence[Rollout]) -> Iterator[Episode]:
        """The records, in order; on a failure those that are finished, then the error.

        Raises:
            EndpointError: the endpoint failed, its model's context holds no prompt of the task,
                or it does not keep to a schema.
        """
        return _concurrently(self._rollout, rollouts, self.batch_size)

    def _rollout(self, rollout: Rollout, stop: threading.Event) -> Episode:
        encounter = Encounter(self.task, rollout.case)
        dialogue = dialogue_for(self.task)(encounter)
        schema = turn_schema(dialogue) if self.json_schema else None
        while not encounter.over:
            if stop.is_set():
                raise EndpointError(f"{self.name} was stopped")
            try:
                self._turn(dialogue, rollout, schema)
            except ContextExceededError:
                if not encounter.actions:
                    raise
                while not encounter.over:
                    dialogue.step("", complete=False)
        raw = tuple(m["content"] for m in dialogue.messages if m["role"] == "assistant")
        episode = encounter.episode(
            policy=self.name, rollout=rollout.number, greedy=rollout.greedy, raw=raw
        )
        limits = {"max_tokens": self.max_tokens, "json_schema": self.json_schema}
        return episode.model_copy(update={"meta": episode.meta | limits})

    def _turn(self, dialogue: Dialogue, rollout: Rollout, schema: dict[str, Any] | None) -> None:
        completion = self.model.chat(
            [{"role": m["role"], "content": m["content"]} for m in dialogue.messages],
            temperature=0.0 if rollout.greedy else 1.0,
            max_tokens=self.max_tokens,
            seed=rollout.seed + len(dialogue.encounter.actions),  # turns must not draw alike
            schema=schema,
        )
        cut = completion.finish_reason == "length"
        _, _, action = dialogue.step(completion.text, complete=not cut)
        if schema and isinstance(action, Invalid) and action.reason in _OUTSIDE_SCHEMA:
            raise EndpointError(
                f"{self.name} answered outside it ({completion.text[:80]!r}); the server does not "
                "apply JSON schemas, so ask without one"
            )


def _concurrently(
    play: Callable[[Rollout, threading.Event], Episode], rollouts: Sequence[Rollout], workers: int
) -> Iterator[Episode]:
    """Every rollout played, in order; the first error, or an interrupt, stops them all at once.

    What was finished by then is given first: it is paid for. The threads are daemons: one that
    waits for a server keeps no process from ending.
    """
    waiting: SimpleQueue[int] = SimpleQueue()
    done: SimpleQueue[tuple[int, Episode | Exception]] = SimpleQueue()
    stop = threading.Event()

    def work() -> None:
        while not stop.is_set():
            try:
                number = waiting.get_nowait()
            except Empty:
                return
            try:
                done.put((number, play(rollouts[number], stop)))
            except Exception as error:
                done.put((number, error))

    for number in range(len(rollouts)):
        waiting.put(number)
    for _ in range(min(workers, len(rollouts))):
        threading.Thread(target=work, daemon=True).start()
    played: dict[int, Episode] = {}
    failure: BaseException | None = None
    try:
        while failure is None and len(played) < len(rollouts):
            number, found = done.get()
            if isinstance(found, Exception):
                failure = found
            else:
                played[number] = found
    except KeyboardInterrupt as interrupt:
        failure = interrupt
    stop.set()
    yield from (played[number] for number in sorted(played))
    if failure is not None:
        raise failure
