"""The verifier computes everything from the turns, and refuses records that contradict."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from clinical_envs.episode import AskTurn, CommitTurn, Episode, InvalidTurn, Turn
from clinical_envs.errors import InvalidEpisode
from clinical_envs.simulator import Ask, Commit, Encounter, Invalid
from clinical_envs.task import Task
from clinical_envs.verifier import verify
from tests.core.bayes import brute_posterior
from tests.core.small_task import small_task, small_task_data
from tests.strategies import Play, play_of, plays


def _record(*turns: Turn, **fields: Any) -> Episode:
    fields = {"task": "SoreThroat-v0@1.0.0", "family": "child", "state": "viral"} | fields
    return Episode(turns=turns, **fields)


def _ask(finding: str, answer: bool = True) -> Turn:
    return AskTurn(ask=finding, answer=answer)


COMMIT = CommitTurn(commit="reassure")
INVALID = InvalidTurn(invalid="empty")


@given(plays(certain=True))
def test_what_the_simulator_paid_is_what_the_verifier_finds(play: Play) -> None:
    encounter = Encounter(play.task, play.case)
    paid = math.fsum(encounter.step(action).reward for action in play.actions)
    outcome = verify(play.task, encounter.episode())
    assert math.isclose(outcome.reward, paid, abs_tol=1e-9)
    assert outcome.actions == play.actions
    assert outcome.final == encounter.info
    assert outcome.start == play.case.start(play.task)
    assert not outcome.expected


@given(plays(certain=True))
def test_the_counts_are_those_of_the_turns(play: Play) -> None:
    task, case, actions = play
    outcome = verify(task, play.episode())
    asked = [action.finding for action in actions if isinstance(action, Ask)]
    last = actions[-1]
    assert outcome.asks == len(asked)
    assert outcome.repeats == len(asked) - len(set(asked) - set(case.revealed))
    assert outcome.invalid_turns == sum(isinstance(action, Invalid) for action in actions)
    assert outcome.decision == (last.decision if isinstance(last, Commit) else None)
    assert outcome.committed == isinstance(last, Commit)
    assert outcome.turns == len(actions) == outcome.asks + outcome.invalid_turns + outcome.committed
    assert (outcome.family, outcome.state) == (case.family, case.state)
    charged = task.question_cost * (outcome.asks + outcome.invalid_turns)
    assert math.isclose(outcome.utility - outcome.reward, charged, abs_tol=1e-9)


@given(plays())
def test_without_the_state_the_utility_is_its_posterior_expectation(play: Play) -> None:
    task = play.task
    episode = play.episode()
    outcome = verify(task, episode.model_copy(update={"state": None}))
    seen = {turn.ask: turn.answer for turn in episode.turns if isinstance(turn, AskTurn)}
    belief = brute_posterior(task, episode.family, seen | episode.initial)
    paid = [
        task.no_decision_utility[s]
        if outcome.decision is None
        else task.utility[state.id][outcome.decision]
        for s, state in enumerate(task.states)
    ]
    expected = math.fsum(b * u for b, u in zip(belief, paid, strict=True))
    assert outcome.expected
    assert outcome.state is None
    assert math.isclose(outcome.utility, expected, abs_tol=1e-9)
    known = verify(task, episode)
    assert (known.asks, known.repeats, known.final) == (
        outcome.asks,
        outcome.repeats,
        outcome.final,
    )


def test_an_episode_worked_by_hand() -> None:
    turns = (_ask("exudate"), _ask("exudate"), CommitTurn(commit="antibiotic"))
    outcome = verify(small_task(), _record(*turns, state="strep"))
    assert (outcome.asks, outcome.repeats, outcome.invalid_turns) == (2, 1, 0)
    assert outcome.utility == 0.6
    assert math.isclose(outcome.reward, 0.6 - 2 * 0.05)
    # Without the state: weights 0.14, 0.175, 0.03 (see test_belief) on -0.1, 0.6, -0.5.
    unknown = verify(small_task(), _record(*turns, state=None))
    assert math.isclose(unknown.utility, (0.14 * -0.1 + 0.175 * 0.6 + 0.03 * -0.5) / 0.345)


def test_running_out_of_turns_pays_the_no_decision_utility_of_the_state() -> None:
    outcome = verify(small_task(), _record(INVALID, _ask("cough"), INVALID, state="strep"))
    assert outcome.decision is None
    assert not outcome.committed
    assert outcome.utility == -0.5
    assert math.isclose(outcome.reward, -0.5 - 3 * 0.05)


def test_a_recorded_reward_is_not_believed() -> None:
    episode = Episode.model_validate(
        {**_record(COMMIT).model_dump(by_alias=True), "reward": 99.0, "meta": {"reward": 99.0}}
    )
    assert verify(small_task(), episode).reward == 0.5


REFUSED: dict[str, tuple[Episode, str]] = {
    "another task": (_record(COMMIT, task="ClinicalDx-v0@1.0.0"), "an episode of 'ClinicalDx-v0"),
    "a task of two lines": (_record(COMMIT, task="a\nb"), "an episode of 'a\\nb' cannot be"),
    "another version": (_record(COMMIT, task="SoreThroat-v0@0.9.0"), "SoreThroat-v0@0.9.0"),
    "no version": (_record(COMMIT, task="SoreThroat-v0"), "cannot be verified against"),
    "unknown family": (_record(COMMIT, family="adlt"), "family 'adlt'; did you mean 'adult'?"),
    "unknown state": (_record(COMMIT, state="strp"), "state 'strp'; did you mean 'strep'?"),
    "unknown finding": (_record(_ask("coughs"), COMMIT), "finding 'coughs'; did you mean 'cough'?"),
    "look-alike finding": (_record(_ask("\u0441ough"), COMMIT), "unknown finding"),
    "unknown decision": (_record(CommitTurn(commit="")), "unknown decision ''"),
    "unknown initial finding": (_record(COMMIT, initial={"pus": True}), "unknown finding 'pus'"),
    "two answers": (
        _record(_ask("cough"), _ask("cough", False), COMMIT),
        "turn 2: 'cough' was answered otherwise before",
    ),
    "answer against the start": (
        _record(_ask("cough", False), COMMIT, initial={"cough": True}),
        "turn 1: 'cough' was answered otherwise before",
    ),
    "ask after the commit": (_record(COMMIT, _ask("cough")), "turn 2 comes after the end"),
    "commit twice": (_record(COMMIT, COMMIT), "turn 2 comes after the end"),
    "invalid after the commit": (_record(COMMIT, INVALID), "turn 2 comes after the end"),
    "commit after the cap": (_record(INVALID, INVALID, INVALID, COMMIT), "turn 4 comes after"),
    "ask after the cap": (_record(*[_ask("cough")] * 4), "turn 4 comes after the end"),
    "no turns": (_record(), "0 turns without a commit; the cap of SoreThroat-v0@1.0.0 is 3"),
    "too few turns": (_record(_ask("cough"), INVALID), "2 turns without a commit"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_a_record_that_contradicts_is_refused_on_one_line(what: str) -> None:
    episode, fragment = REFUSED[what]
    with pytest.raises(InvalidEpisode) as caught:
        verify(small_task(), episode)
    message = str(caught.value)
    assert fragment in message
    assert message.splitlines() == [message]


def _certain_task() -> Task:
    """Pus is never seen in a child with a virus, and no child has trismus."""
    data = small_task_data()
    data["findings"][0]["p"]["child"] = [0.0, 0.5, 1.0]
    data["findings"][1]["p"]["child"] = [0.0, 0.0, 0.0]
    data["high_acuity"] = {}
    return Task.model_validate(data)


@pytest.mark.parametrize(
    ("state", "seen", "who"),
    [
        (None, {"trismus": True}, "no state"),
        ("strep", {"trismus": True}, "state 'strep'"),
        ("viral", {"exudate": True}, "state 'viral'"),
        ("abscess", {"exudate": False}, "state 'abscess'"),
    ],
)
def test_answers_that_cannot_be_are_refused(
    state: str | None, seen: dict[str, bool], who: str
) -> None:
    task = _certain_task()
    asked = _record(*[_ask(name, answer) for name, answer in seen.items()], COMMIT, state=state)
    for episode in (asked, _record(COMMIT, state=state, initial=seen)):
        with pytest.raises(InvalidEpisode) as caught:
            verify(task, episode)
        message = f"the answers cannot be: {who} of SoreThroat-v0@1.0.0 never gives them"
        assert str(caught.value) == message


def test_answers_that_are_certain_are_accepted() -> None:
    turns = (_ask("exudate", True), _ask("trismus", False), COMMIT)
    assert verify(_certain_task(), _record(*turns, state="abscess")).utility == -1.0
    unknown = verify(_certain_task(), _record(*turns, state=None))
    # 0.25 * 0.5 of the strep and all 0.05 of the abscesses are left.
    assert math.isclose(unknown.utility, (0.125 * -0.4 + 0.05 * -1.0) / 0.175)


@given(play_of(small_task()), st.sampled_from([AskTurn(ask="cough", answer=True), INVALID]))
def test_no_turn_can_be_added_to_a_finished_episode(play: Play, turn: Turn) -> None:
    episode = play.episode()
    longer = episode.model_copy(update={"turns": (*episode.turns, turn)})
    with pytest.raises(InvalidEpisode, match="after the end of the episode"):
        verify(play.task, longer)


@given(play_of(small_task()))
def test_no_episode_is_finished_before_its_last_turn(play: Play) -> None:
    episode = play.episode()
    for kept in range(len(episode.turns)):
        with pytest.raises(InvalidEpisode, match="is not finished"):
            verify(play.task, episode.model_copy(update={"turns": episode.turns[:kept]}))


LONG_TASK = Task.model_validate(small_task_data() | {"turn_cap": 8})


@given(play_of(LONG_TASK), st.data())
def test_a_flipped_repeat_is_noticed(play: Play, data: st.DataObject) -> None:
    episode = play.episode()
    known = set(episode.initial)
    repeats = []
    for number, turn in enumerate(episode.turns):
        if isinstance(turn, AskTurn):
            if turn.ask in known:
                repeats.append((number, turn))
            known.add(turn.ask)
    assume(repeats)
    number, turn = data.draw(st.sampled_from(repeats))
    turns = list(episode.turns)
    turns[number] = AskTurn(ask=turn.ask, answer=not turn.answer)
    with pytest.raises(InvalidEpisode, match="was answered otherwise before"):
        verify(play.task, episode.model_copy(update={"turns": tuple(turns)}))


def test_an_episode_of_a_changed_task_needs_that_version() -> None:
    newer = small_task_data() | {"version": "1.1.0"}
    newer["history"].append({"version": "1.1.0", "date": "2026-01-02", "change": "Second."})
    task = Task.model_validate(newer)
    with pytest.raises(InvalidEpisode, match=r"SoreThroat-v0@1\.0\.0' .* 'SoreThroat-v0@1\.1\.0"):
        verify(task, _record(COMMIT))
    assert verify(task, _record(COMMIT, task=task.key)).committed
