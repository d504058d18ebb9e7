"""The two phases of the decoupled variant, and the border between them on token level."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clinical_envs.belief import InfoState
from clinical_envs.case import Case
from clinical_envs.catalog import load_task, task_ids
from clinical_envs.simulator import Action, Ask, Commit, Invalid
from clinical_envs.task import Task
from tests.strategies import cases
from tests.training.toy import (
    FLAT,
    FULL,
    HIGH,
    LOW,
    NEEDS,
    STRONG,
    WEAK,
    ask_text,
    chat,
    commit_text,
    patient,
    toy_task,
)
from training.dialogue import (
    EXPLOIT,
    EXPLORE,
    STOP,
    EpisodeSpeaker,
    ExploitSpeaker,
    ExploreSpeaker,
    exploit_prompt,
)

pytest.importorskip("transformers", reason=NEEDS)
pytest.importorskip("trl", reason=NEEDS)

TASK = toy_task(turn_cap=4)
CASE = patient(TASK, (True, False, True), HIGH)
TASKS = [load_task(name) for name in task_ids()]


def explored(turns: list[str], case: Case = CASE) -> ExploreSpeaker:
    speaker = ExploreSpeaker(TASK, case)
    for text in turns:
        speaker.answer(text)
    return speaker


def test_stopping_is_free_and_no_turn() -> None:
    speaker = explored([ask_text(TASK, STRONG)])
    before = speaker.info
    assert speaker.answer(STOP) is None
    assert speaker.stopped
    assert speaker.info == before
    assert speaker.actions == [Ask(STRONG)]


def test_a_commit_while_exploring_is_invalid_charged_and_reveals_nothing() -> None:
    speaker = ExploreSpeaker(TASK, CASE)
    reply = speaker.answer(commit_text(TASK, FULL))
    assert reply is not None
    assert "unknown_action" in reply
    assert speaker.actions == [Invalid("unknown_action")]
    assert speaker.info == speaker.start.waste()


def test_exploring_lasts_one_turn_less_than_the_cap() -> None:
    speaker = ExploreSpeaker(TASK, CASE)
    assert speaker.answer(ask_text(TASK, STRONG)) is not None
    assert speaker.answer("what?") is not None
    assert speaker.answer(ask_text(TASK, WEAK)) is None
    assert speaker.actions == [Ask(STRONG), Invalid("not_json"), Ask(WEAK)]
    assert not speaker.stopped
    assert speaker.info.turns_left == 1


def test_a_stop_that_was_cut_is_an_invalid_turn() -> None:
    speaker = ExploreSpeaker(TASK, CASE)
    assert speaker.answer(STOP, complete=False) is not None
    assert not speaker.stopped
    assert speaker.actions == [Invalid("too_long")]


def test_the_explore_prompt_is_the_episodes_with_its_mode_line() -> None:
    episode, explore = EpisodeSpeaker(TASK, CASE), ExploreSpeaker(TASK, CASE)
    assert explore.opening == f"{episode.opening}\n{EXPLORE}"


def test_stop_is_illegal_in_an_episode() -> None:
    speaker = EpisodeSpeaker(TASK, CASE)
    speaker.answer(STOP)
    assert speaker.actions == (Invalid("unknown_action"),)


@pytest.mark.parametrize(
    ("text", "action"),
    [
        (commit_text(TASK, FULL), Commit(FULL)),
        (ask_text(TASK, STRONG), Invalid("unknown_action")),
        (STOP, Invalid("unknown_action")),
        ("full_intensity", Invalid("not_json")),
    ],
)
def test_exploiting_is_one_turn_and_only_a_commit_counts(text: str, action: Action) -> None:
    speaker = ExploitSpeaker(TASK, explored([ask_text(TASK, STRONG)]).info)
    assert speaker.answer(text) is None
    assert speaker.action == action


def exploit_ids(info: InfoState) -> tuple[int, ...]:
    return chat().prompt(ExploitSpeaker(TASK, info).opening)


def test_the_exploit_prompt_names_what_was_revealed_in_file_order() -> None:
    one, other = (
        explored([ask_text(TASK, q) for q in order]).info
        for order in ((STRONG, WEAK), (WEAK, STRONG))
    )
    text = exploit_prompt(TASK, one)
    assert exploit_prompt(TASK, other) == text
    lines = text.splitlines()
    assert lines[-1] == EXPLOIT
    assert '"prior_vte", "answer": "yes"' in lines[-3]
    assert '"recent_gi_bleed", "answer": "no"' in lines[-2]


def test_patients_who_differ_only_in_what_was_not_revealed_give_the_same_exploit_ids() -> None:
    others = [
        patient(TASK, (True, weak, flat), state, index)
        for weak in (True, False)
        for flat in (True, False)
        for state in (LOW, HIGH)
        for index in (0, 9)
    ]
    revealed = [explored([ask_text(TASK, STRONG)], case).info for case in others]
    assert len({exploit_ids(info) for info in revealed}) == 1


def test_how_exploring_went_is_not_in_the_exploit_ids() -> None:
    ask = ask_text(TASK, STRONG)
    ways = [[ask], [ask, ask], ["what?", ask], [commit_text(TASK, FULL), ask, STOP], [ask, STOP]]
    assert len({exploit_ids(explored(turns).info) for turns in ways}) == 1


def test_what_was_revealed_is_in_the_exploit_ids() -> None:
    yes, no = (explored([ask_text(TASK, q)]).info for q in (STRONG, WEAK))
    absent = explored([ask_text(TASK, STRONG)], patient(TASK, (False, False, True))).info
    more = explored([ask_text(TASK, STRONG), ask_text(TASK, FLAT)]).info
    assert len({exploit_ids(info) for info in (yes, no, absent, more)}) == 4


@pytest.mark.parametrize("task", TASKS, ids=[task.name for task in TASKS])
@given(data=st.data())
def test_on_shipped_tasks_the_exploit_ids_depend_on_family_and_findings_alone(
    task: Task, data: st.DataObject
) -> None:
    case = data.draw(cases(task, rhos=(0.0,)))
    asked = data.draw(st.lists(st.integers(0, len(task.findings) - 1), max_size=task.turn_cap - 1))
    answers = [
        answer if q in asked else data.draw(st.booleans()) for q, answer in enumerate(case.answers)
    ]
    state = data.draw(st.integers(0, len(task.states) - 1))
    other = replace(case, state=state, answers=tuple(answers))
    prompts = []
    for who, order in ((case, asked), (other, sorted(set(asked), reverse=True))):
        speaker = ExploreSpeaker(task, who)
        for finding in order:
            speaker.answer(ask_text(task, finding))
        prompts.append(chat().prompt(ExploitSpeaker(task, speaker.info).opening))
    assert prompts[0] == prompts[1]


def test_an_encounter_cut_short_is_finished_by_wasting_its_turns() -> None:
    speaker = EpisodeSpeaker(TASK, CASE)
    speaker.answer(ask_text(TASK, STRONG))
    episode = speaker.finish(policy="policy", rollout=3)
    assert speaker.actions == (Ask(STRONG), *[Invalid("too_long")] * 3)
    assert (episode.policy, episode.rollout) == ("policy", 3)
    assert episode.raw == (ask_text(TASK, STRONG), "", "", "")
