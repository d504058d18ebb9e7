"""The rules of a turn: what it reveals, what it costs, when it ends, and what it never shows."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clinical_envs.case import Case, CaseStream
from clinical_envs.episode import AskTurn, CommitTurn, Episode, InvalidTurn
from clinical_envs.errors import EpisodeOver, InvalidAction, InvalidArgument
from clinical_envs.protocol import Dialogue, action_text
from clinical_envs.simulator import Action, Ask, Commit, Encounter, Invalid, Transition
from clinical_envs.task import Task
from tests.core.small_task import small_task, small_task_data
from tests.strategies import Play, play_of, plays, tasks


def _case(task: Task, **content: Any) -> Case:
    public: dict[str, Any] = {"task": task.key, "split": "train", "seed": 0, "index": 0}
    hidden = {"family": 0, "state": 0, "answers": (True, False, True)}
    return Case(**(public | hidden | content))


@given(plays(certain=True))
def test_every_turn_pays_and_uses_what_the_rules_say(play: Play) -> None:
    task, case, actions = play
    encounter = Encounter(task, case)
    known = {q: case.answers[q] for q in case.revealed}
    for number, action in enumerate(actions, start=1):
        transition = encounter.step(action)
        last = number == task.turn_cap
        if isinstance(action, Commit):
            expected = task.utility_matrix[case.state, action.decision]
        else:
            expected = -task.question_cost + last * task.no_decision_utility[case.state]
        if isinstance(action, Ask):
            known[action.finding] = case.answers[action.finding]
            assert transition.answer is case.answers[action.finding]
        else:
            assert transition.answer is None
        assert math.isclose(transition.reward, expected, abs_tol=1e-12)
        assert transition.terminated == (isinstance(action, Commit) or last) == encounter.over
        assert encounter.info.turns_left == task.turn_cap - number
        assert dict(encounter.info.seen()) == known
        assert encounter.actions == actions[:number]


@given(play_of(small_task()), st.sampled_from([0, 1, 2]))
def test_a_step_after_the_end_is_refused_and_changes_nothing(play: Play, kind: int) -> None:
    action = (Ask(0), Commit(0), Invalid("empty"))[kind]
    encounter = play.finished()
    before = (encounter.info, encounter.actions, encounter.episode())
    with pytest.raises(EpisodeOver, match="the episode is over"):
        encounter.step(action)
    assert (encounter.info, encounter.actions, encounter.episode()) == before


@given(play_of(small_task()))
def test_the_same_turns_on_the_same_case_give_the_same_record(play: Play) -> None:
    assert play.episode() == play.episode()


def test_a_commit_on_the_last_turn_is_legal_and_an_ask_there_ends_in_no_decision() -> None:
    task = small_task()  # cap 3, cost 0.05, no decision pays -0.6 in the first state
    encounter = Encounter(task, _case(task))
    encounter.step(Ask(0))
    encounter.step(Invalid("not_json"))
    assert encounter.step(Commit(0)) == Transition(0.5, True, None)
    encounter = Encounter(task, _case(task))
    encounter.step(Ask(0))
    encounter.step(Ask(0))
    reward, terminated, answer = encounter.step(Ask(1))
    assert math.isclose(reward, -0.05 - 0.6)
    assert terminated
    assert answer is False
    assert encounter.info.turns_left == 0


def test_a_cap_of_one_turn_leaves_one_turn() -> None:
    task = Task.model_validate(small_task_data() | {"turn_cap": 1, "checklist": {}})
    actions: tuple[Action, ...] = (Ask(0), Invalid("empty"), Commit(1))
    for action in actions:
        assert Encounter(task, _case(task)).step(action).terminated


def test_a_repeat_costs_a_turn_gives_the_same_answer_and_teaches_nothing() -> None:
    task = small_task()
    encounter = Encounter(task, _case(task))
    first, known = encounter.step(Ask(0)), encounter.info
    assert encounter.step(Ask(0)) == first == Transition(-0.05, False, True)
    assert encounter.info == known.waste()


def test_asking_for_a_finding_shown_at_the_start_is_a_charged_repeat() -> None:
    task = small_task()
    encounter = Encounter(task, _case(task, revealed=(0,)))
    known = encounter.info
    assert encounter.step(Ask(0)) == Transition(-0.05, False, True)
    assert encounter.info == known.waste()


OUTSIDE = (-1, 3, 99, 2**70, 1.0, "cough", None)


@pytest.mark.parametrize("position", OUTSIDE)
@pytest.mark.parametrize(("action", "kind"), [(Ask, "finding"), (Commit, "decision")])
def test_an_action_that_the_task_does_not_have_is_refused_and_changes_nothing(
    action: Any, kind: str, position: Any
) -> None:
    encounter = Encounter(small_task(), _case(small_task()))
    encounter.step(Ask(1))
    before = encounter.info
    with pytest.raises(InvalidAction) as caught:
        encounter.step(action(position))
    message = f"{kind} is {position!r}; it is an integer from 0 to 2, its position in the task"
    assert str(caught.value) == message
    assert (encounter.info, encounter.actions, encounter.over) == (before, (Ask(1),), False)


@pytest.mark.parametrize("integer", [np.int64, np.uint8, np.array])
def test_a_numpy_integer_is_a_position(integer: Any) -> None:
    task = small_task()
    encounter, plain = (Encounter(task, _case(task)) for _ in range(2))
    for action in (Ask, Commit):
        assert encounter.step(action(integer(1))) == plain.step(action(1))
        assert encounter.info == plain.info
        assert list(encounter.info.seen()) == [(1, False)]
    assert encounter.episode() == plain.episode()
    assert all(type(action[0]) is int for action in encounter.actions)


@given(st.lists(st.text(st.characters(exclude_categories=())), max_size=3))
def test_any_text_can_be_recorded_written_and_read_again(texts: list[str]) -> None:
    encounter = Encounter(small_task(), _case(small_task()))
    for text in texts:
        encounter.step(Invalid(text))
    if not encounter.over:
        encounter.step(Commit(0))
    episode = encounter.episode(raw=tuple(texts))
    assert Episode.model_validate_json(episode.to_json()) == episode


def test_a_lone_surrogate_is_recorded_as_its_escape() -> None:
    encounter = Encounter(small_task(), _case(small_task()))
    encounter.step(Invalid("caf\u00e9 \ud800"))
    encounter.step(Commit(0))
    episode = encounter.episode(raw=("\udfff\U0001f600", "plain"))
    assert episode.turns[0] == InvalidTurn(invalid="caf\u00e9 \\ud800")
    assert episode.raw == ("\\udfff\U0001f600", "plain")


def test_the_record_of_a_running_encounter_cannot_be_had() -> None:
    task = small_task()
    encounter = Encounter(task, _case(task))
    with pytest.raises(EpisodeOver, match="still running"):
        encounter.episode()
    encounter.step(Ask(0))
    with pytest.raises(EpisodeOver, match="still running") as caught:
        encounter.episode()
    assert not any(state in str(caught.value) for state in task.state_ids)
    assert encounter.turns() == (AskTurn(ask="exudate", answer=True),)


def test_the_record_holds_the_turns_the_case_and_what_the_caller_adds() -> None:
    task = small_task()
    case = CaseStream(task, "test", 9, rho=1.0)[4]
    encounter = Encounter(task, case)
    encounter.step(Ask(1))
    encounter.step(Invalid("too_long"))
    encounter.step(Commit(2))
    episode = encounter.episode(policy="mine", rollout=3, raw=("a", "b", "c"), greedy=True)
    assert episode.task == "SoreThroat-v0@1.0.0"
    assert episode.family == task.family_ids[case.family]
    assert episode.state == task.state_ids[case.state]
    assert episode.initial == dict(zip(task.finding_ids, case.answers, strict=True))
    assert episode.turns == (
        AskTurn(ask="trismus", answer=case.answers[1]),
        InvalidTurn(invalid="too_long"),
        CommitTurn(commit="refer"),
    )
    assert episode.case_id == "test/9/4"
    assert episode.case is not None
    assert episode.case.hash == case.hash
    assert (episode.policy, episode.rollout, episode.raw) == ("mine", 3, ("a", "b", "c"))
    assert episode.greedy
    assert not encounter.episode().greedy


def test_a_case_of_another_task_or_version_is_refused() -> None:
    newer = small_task_data() | {"version": "2.0.0"}
    newer["history"].append({"version": "2.0.0", "date": "2026-01-02", "change": "Second."})
    with pytest.raises(InvalidArgument, match=r"a case of SoreThroat-v0@1\.0\.0 cannot be played"):
        Encounter(Task.model_validate(newer), _case(small_task()))


@st.composite
def _twins(draw: st.DrawFn) -> tuple[Play, Case]:
    """Play of a case, and another patient who differs only in what that play never shows."""
    play = draw(play_of(draw(tasks(certain=True))))
    task, case, actions = play
    shown = set(case.revealed) | {a.finding for a in actions if isinstance(a, Ask)}
    hidden = draw(st.tuples(*[st.booleans() for _ in task.findings]))
    other = dataclasses.replace(
        case,
        state=(case.state + draw(st.integers(1, len(task.states) - 1))) % len(task.states),
        answers=tuple(case.answers[q] if q in shown else hidden[q] for q in range(len(hidden))),
    )
    return play, other


@given(_twins())
def test_patients_who_differ_only_in_what_is_hidden_give_identical_turns(
    twins: tuple[Play, Case],
) -> None:
    play, other = twins
    one, two = Encounter(play.task, play.case), Encounter(play.task, other)
    assert one.info == two.info
    for action in play.actions[:-1]:
        assert one.step(action) == two.step(action)
        assert one.info == two.info
        assert one.turns() == two.turns()
    last = play.actions[-1]
    assert one.step(last)[1:] == two.step(last)[1:]  # the last reward tells, the rest does not
    assert one.info == two.info
    assert one.turns() == two.turns()


@given(_twins())
def test_patients_who_differ_only_in_what_is_hidden_give_byte_identical_dialogues(
    twins: tuple[Play, Case],
) -> None:
    play, other = twins
    task = play.task
    one, two = (Dialogue(Encounter(task, case)) for case in (play.case, other))
    for action in play.actions:
        text = "?" if isinstance(action, Invalid) else action_text(task, action)
        assert one.step(text)[1:] == two.step(text)[1:]
    assert one.messages == two.messages
