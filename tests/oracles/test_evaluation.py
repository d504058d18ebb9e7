"""Playing a policy on a set: what is played, what is written, and what a kill leaves behind."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from clinical_envs.case import CaseStream
from clinical_envs.catalog import load_task
from clinical_envs.episode import read_episodes, write_episodes
from clinical_envs.errors import InvalidArgument
from clinical_envs.simulator import Action
from oracles.clinical import ClinicalWorld
from oracles.evaluation import evaluate
from oracles.policy import FunctionPolicy, View

WORLD = ClinicalWorld(load_task("titration"))
CASES = CaseStream(WORLD.task, "heldout", 100).block(0, 12)
RANDOM = WORLD.policy("random")


def speaks(view: View, rng: np.random.Generator) -> Action | str:
    """Text that is no action, with letters of several bytes, then an action."""
    if view.turns_left > 8:
        return "Zögern Sie nicht – 是的"
    return view.commit(("no_therapy", "full_intensity")[int(rng.integers(2))])


SPEAKER = FunctionPolicy("speaker", speaks)


def play(out: Path | None = None, policy: Any = RANDOM, k: int = 3, **more: Any) -> list[Any]:
    return evaluate(WORLD, policy, CASES, k=k, out=out, **more)


def test_every_case_has_k_rollouts_and_one_greedy_one_in_order() -> None:
    episodes = play(greedy=True)
    assert [(e.case.index, e.rollout, e.greedy) for e in episodes] == [
        (case.index, rollout, greedy)
        for case in CASES
        for rollout, greedy in [(0, False), (1, False), (2, False), (0, True)]
    ]
    assert {e.policy for e in episodes} == {"random"}


def test_the_same_seed_gives_the_same_episodes_in_any_order_and_number_of_cases() -> None:
    episodes = {(e.case_id, e.rollout): e.turns for e in play(seed=4)}
    backwards = evaluate(WORLD, RANDOM, CASES[::-1], k=2, seed=4)
    assert all(episodes[e.case_id, e.rollout] == e.turns for e in backwards)
    assert episodes != {(e.case_id, e.rollout): e.turns for e in play(seed=5)}


def test_rollouts_of_a_random_policy_differ_and_of_a_deterministic_one_do_not() -> None:
    by_case = {e.case_id: set[Any]() for e in play()}
    for episode in play(k=6):
        by_case[episode.case_id].add(episode.turns)
    assert max(map(len, by_case.values())) > 1
    oracle = [e.turns for e in play(policy=WORLD.policy("oracle"), k=4)]
    assert oracle == [turns for turns in oracle[::4] for _ in range(4)]


@pytest.mark.parametrize("policy", [RANDOM, WORLD.policy("oracle"), SPEAKER])
def test_what_is_written_is_what_is_returned(policy: Any, tmp_path: Path) -> None:
    out = tmp_path / "new" / "episodes.jsonl"
    episodes = play(out, policy, greedy=True)
    file = read_episodes(out)
    assert file.damaged == []
    assert file.episodes == episodes == play(None, policy, greedy=True)


def _cuts(content: bytes) -> list[int]:
    """Everywhere near an end of a line, inside the first lines, and inside a character."""
    ends = [i + 1 for i, byte in enumerate(content) if byte == 10]
    some = [0, 1, 10, *range(ends[0] - 3, ends[0] + 3), ends[3], ends[7] + 40, len(content) - 1]
    inside = [i for i, byte in enumerate(content) if 0x80 <= byte < 0xC0][:3]
    return [*some, *inside, len(content)]


@pytest.mark.parametrize("policy", [RANDOM, SPEAKER])
def test_a_run_killed_anywhere_ends_as_an_unbroken_one(policy: Any, tmp_path: Path) -> None:
    out = tmp_path / "episodes.jsonl"
    whole = play(out, policy, greedy=True)
    content = out.read_bytes()
    for cut in _cuts(content):
        out.write_bytes(content[:cut])
        assert play(out, policy, greedy=True) == whole
        assert out.read_bytes() == content, f"cut at byte {cut}"


def test_a_finished_run_plays_nothing_again_and_reports_its_progress(tmp_path: Path) -> None:
    out, calls = tmp_path / "episodes.jsonl", list[tuple[int, int]]()
    play(out)
    before = out.read_bytes()

    def never(view: View, rng: np.random.Generator) -> str:
        pytest.fail("played again")

    play(out, FunctionPolicy("random", never), progress=lambda *at: calls.append(at))
    assert out.read_bytes() == before
    assert calls == [(i, len(CASES)) for i in range(1, len(CASES) + 1)]


def test_more_rollouts_extend_a_file(tmp_path: Path) -> None:
    out = tmp_path / "episodes.jsonl"
    play(out, k=2)
    extended = play(out, k=4)
    assert {(e.case_id, e.rollout): e for e in extended} == {
        (e.case_id, e.rollout): e for e in play(k=4)
    }


def test_a_file_that_holds_more_gives_what_was_asked_for(tmp_path: Path) -> None:
    out = tmp_path / "episodes.jsonl"
    play(out, k=4, greedy=True)
    before = out.read_bytes()
    assert evaluate(WORLD, RANDOM, CASES[:5], k=2, out=out) == play(k=4)[:2] + [
        e for i in range(1, 5) for e in play(k=4)[4 * i : 4 * i + 2]
    ]
    assert out.read_bytes() == before


def test_a_file_of_another_seed_is_refused(tmp_path: Path) -> None:
    out = tmp_path / "episodes.jsonl"
    play(out, seed=1)
    with pytest.raises(InvalidArgument, match="seed"):
        play(out, seed=2)


def test_a_file_of_something_else_is_refused_and_left_alone(tmp_path: Path) -> None:
    out = tmp_path / "episodes.jsonl"
    play(out)
    before = out.read_bytes()
    other = ClinicalWorld(load_task("refill"))
    with pytest.raises(InvalidArgument, match="choose another file"):
        play(out, WORLD.policy("oracle"))
    with pytest.raises(InvalidArgument, match="choose another file"):
        evaluate(other, other.policy("random"), other.cases("heldout"), k=1, out=out)
    with pytest.raises(InvalidArgument, match="choose another file"):
        evaluate(WORLD, RANDOM, WORLD.cases("train"), k=1, out=out)
    assert out.read_bytes() == before


def test_a_damaged_line_before_the_last_is_refused_by_number(tmp_path: Path) -> None:
    out = tmp_path / "episodes.jsonl"
    play(out)
    lines = out.read_text(encoding="utf-8").splitlines(keepends=True)
    out.write_text("".join([lines[0], "{]\n", *lines[1:]]), encoding="utf-8")
    with pytest.raises(InvalidArgument, match="line 2"):
        play(out)


def test_nothing_to_play_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="k is 0"):
        play(k=0)
    with pytest.raises(InvalidArgument, match="no cases"):
        evaluate(WORLD, RANDOM, [], k=1)


def test_text_is_kept_as_it_was_spoken_and_read_by_the_protocol() -> None:
    episode = play(policy=SPEAKER, k=1)[0]
    assert episode.raw is not None
    assert episode.raw[:2] == ("Zögern Sie nicht – 是的",) * 2
    assert '"commit"' in episode.raw[2]
    assert [type(turn).__name__ for turn in episode.turns] == [
        "InvalidTurn",
        "InvalidTurn",
        "CommitTurn",
    ]


def test_a_policy_that_returns_no_action_is_named() -> None:
    with pytest.raises(InvalidArgument, match="policy lost returned None"):
        play(policy=FunctionPolicy("lost", lambda view, rng: None))


def test_the_oracle_is_oracle_grade_on_every_case_and_without_regret() -> None:
    rows = [WORLD.assess(e) for e in play(policy=WORLD.policy("oracle"), k=1)]
    assert all(row.oracle_grade and row.oracle_gap == 0.0 for row in rows)
    assert max(row.regret or 0.0 for row in rows) < 1e-12
    assert all(row.wasted_asks == 0 for row in rows)


def test_written_by_hand_and_by_evaluate_a_file_is_the_same(tmp_path: Path) -> None:
    episodes = play(tmp_path / "a.jsonl")
    assert write_episodes(tmp_path / "b.jsonl", episodes) == len(episodes)
    assert (tmp_path / "a.jsonl").read_bytes() == (tmp_path / "b.jsonl").read_bytes()
