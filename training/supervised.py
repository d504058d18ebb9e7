"""Supervised data: an episode as token ids, with loss on the policy's turns only."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import assert_never

from clinical_envs.adapters.dialogues import dialogue_for
from clinical_envs.belief import InfoState
from clinical_envs.case import CaseStream
from clinical_envs.episode import Episode
from clinical_envs.errors import InvalidArgument
from clinical_envs.protocol import action_text, prompt, reply
from clinical_envs.simulator import Ask, Commit, Encounter, Invalid
from clinical_envs.task import Task
from clinical_envs.verifier import verify
from training.chat import ChatTokens
from training.dialogue import EXPLORE, STOP, exploit_prompt
from training.world_words import speaks_findings


@dataclass(frozen=True, slots=True)
class Example:
    """input_ids, and 1 in policy_mask where the token is the policy's."""

    input_ids: tuple[int, ...]
    policy_mask: tuple[int, ...]


def examples(
    task: Task,
    episodes: Iterable[Episode],
    tokens: ChatTokens,
    *,
    modes: bool = False,
    menu: bool = False,
) -> list[Example]:
    """One example an episode; with modes, its exploring and its exploiting phase as well.

    Episodes with invalid turns are left out: there is nothing to imitate in them. A task with its
    own dialogue is worded by it, on the case that the episode names; with menu it is not.

    Raises:
        InvalidArgument: modes of a task with its own dialogue, or an episode of one without case.
    """
    in_findings = menu or speaks_findings(task)
    if modes and not in_findings:
        raise InvalidArgument(
            f"{task.name} has no explore and exploit modes; set warmup.modes=false"
        )
    found = []
    for episode in episodes:
        outcome = verify(task, episode)
        if outcome.invalid_turns or outcome.decision is None:
            continue
        turns = [a for a in outcome.actions if not isinstance(a, Invalid)]
        if not in_findings:
            found.append(_in_own_words(task, episode, turns, tokens))
            continue
        found.append(_whole(task, outcome.start, turns, outcome.final, tokens))
        if modes:
            found.append(_explore(task, outcome.start, turns, outcome.final, tokens))
            found.append(_exploit(task, outcome.final, Commit(outcome.decision), tokens))
    return found


def _in_own_words(
    task: Task, episode: Episode, turns: list[Ask | Commit], tokens: ChatTokens
) -> Example:
    ref = episode.case
    if ref is None:
        raise InvalidArgument("an episode names no case, so its dialogue is unknown; record it")
    case = CaseStream(task, ref.split, ref.seed)[ref.index]
    dialogue = dialogue_for(task)(Encounter(task, case))
    for action in turns:
        dialogue.play(action)
    opening, *rest = [message["content"] for message in dialogue.messages]
    return _dialogue(tokens, opening, rest[::2], rest[1::2])


def _whole(
    task: Task,
    start: InfoState,
    turns: list[Ask | Commit],
    final: InfoState,
    tokens: ChatTokens,
) -> Example:
    texts = [action_text(task, action) for action in turns]
    return _dialogue(tokens, prompt(task, start), texts, _replies(task, start, turns, final))


def _explore(
    task: Task,
    start: InfoState,
    turns: list[Ask | Commit],
    final: InfoState,
    tokens: ChatTokens,
) -> Example:
    texts = [action_text(task, a) if isinstance(a, Ask) else STOP for a in turns]
    if final.turns_left == 0:
        texts.pop()  # the turns of exploring ran out, so that there was nothing to stop
    replies = _replies(task, start, turns, final)[: len(texts) - 1]
    return _dialogue(tokens, f"{prompt(task, start)}\n{EXPLORE}", texts, replies)


def _exploit(task: Task, revealed: InfoState, commit: Commit, tokens: ChatTokens) -> Example:
    return _dialogue(tokens, exploit_prompt(task, revealed), [action_text(task, commit)], [])


def _replies(
    task: Task, start: InfoState, turns: list[Ask | Commit], final: InfoState
) -> list[str]:
    replies, left = [], start.turns_left
    for action in turns:
        left -= 1
        match action:
            case Ask(finding):
                replies.append(reply(task, action, final.answer(finding), left))
            case Commit():
                pass
            case _:
                assert_never(action)
    return replies


def _dialogue(tokens: ChatTokens, opening: str, turns: list[str], replies: list[str]) -> Example:
    ids = list(tokens.prompt(opening))
    mask = [0] * len(ids)
    for i, text in enumerate(turns):
        turn = tokens.turn(text)
        ids += turn
        mask += [1] * len(turn)
        if i < len(replies):
            answer = tokens.reply(replies[i])
            ids += answer
            mask += [0] * len(answer)
    return Example(tuple(ids), tuple(mask))
