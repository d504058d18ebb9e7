"""The embedded policy's tokenizer of an evidence world: lossless, and short where it speaks."""

from __future__ import annotations

import os
import subprocess
import sys
from functools import cache
from itertools import cycle
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clinical_envs.adapters.dialogues import dialogue_for
from clinical_envs.case import Case, case_set
from clinical_envs.catalog import load_task
from clinical_envs.protocol import Dialogue
from clinical_envs.simulator import Ask, Commit, Encounter
from clinical_envs.task import Task
from training import world_words as words

pytest.importorskip("transformers", reason="pip install 'clinical-envs[train]'")
pytest.importorskip("trl", reason="pip install 'clinical-envs[train]'")

from training.chat import ChatTokens
from training.embedded import build_tokenizer

WORLDS = ("rubric", "checkedqa", "factcheck", "factcheck_label")
CLINICAL = ("diagnostics", "titration", "refill")
SEARCHES = 2


@cache
def tokens(world: str) -> ChatTokens:
    return ChatTokens(build_tokenizer(words=words.world_words(load_task(world))))


def played(task: Task, case: Case, decision: int) -> Dialogue:
    """Two searches, then a decision."""
    dialogue = dialogue_for(task)(Encounter(task, case))
    for finding in range(SEARCHES):
        dialogue.play(Ask((case.index + finding) % len(task.findings)))
    dialogue.play(Commit(decision))
    return dialogue


def dialogues(world: str) -> list[Dialogue]:
    """Every decision on cases that the words were not collected from."""
    task = load_task(world)
    decisions = cycle(range(len(task.decisions)))
    return [played(task, case, next(decisions)) for case in case_set(task, "heldout").cases[:36]]


@given(st.text(), st.lists(st.text(min_size=1), max_size=3))
def test_the_pieces_of_a_text_are_the_text(text: str, names: list[str]) -> None:
    assert "".join(words.pieces(text, words._separators(names))) == text


def test_the_words_stand_in_one_order_in_every_process() -> None:
    """Token ids, and with them the first weights of a seed, follow from it."""
    script = (
        "from clinical_envs.catalog import load_task\n"
        "from training.world_words import policy_words, world_words\n"
        f"print([world_words(load_task(name)) for name in {WORLDS}])\n"
        f"print([policy_words(load_task(name), menu=True) for name in {WORLDS + CLINICAL}])"
    )
    said = {
        subprocess.run(
            [sys.executable, "-c", script],
            env=os.environ | {"PYTHONHASHSEED": str(seed)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in (1, 2)
    }
    assert len(said) == 1


@pytest.mark.parametrize("world", WORLDS)
def test_every_turn_is_read_back_from_its_tokens(world: str) -> None:
    chat = tokens(world)
    for dialogue in dialogues(world):
        for message in dialogue.messages:
            assert chat.text(list(chat.turn(message["content"]))) == message["content"]


@pytest.mark.parametrize(
    ("world", "ask", "ending"),
    # an ending of fact-checking here cites up to two studies on each side
    [("rubric", 6, 40), ("checkedqa", 8, 32), ("factcheck", 10, 140), ("factcheck_label", 10, 4)],
)
def test_a_turn_is_short(world: str, ask: int, ending: int) -> None:
    chat = tokens(world)
    for dialogue in dialogues(world):
        *asks, last = [m["content"] for m in dialogue.messages if m["role"] == "assistant"]
        assert max(len(chat.turn(text)) for text in asks) <= ask
        assert len(chat.turn(last)) <= ending


@pytest.mark.parametrize("world", WORLDS)
def test_a_world_has_few_words(world: str) -> None:
    found = words.world_words(load_task(world))
    assert found is not None
    assert len(found) == len(set(found)) < 600


def test_names_and_numbers_are_words_of_their_own() -> None:
    vocabulary: dict[str, Any] = tokens("factcheck").tokenizer.get_added_vocab()
    for word in ("velotrapine", "Velotrapine", "gastrointestinal bleeding", "case series", "46"):
        assert word in vocabulary
    claim = "Claim: Velotrapine raises the risk of dementia in smokers."
    assert not any(claim in word for word in vocabulary)
    assert "ibuprofen" in tokens("rubric").tokenizer.get_added_vocab()
    assert "velarin" in tokens("checkedqa").tokenizer.get_added_vocab()


@pytest.mark.parametrize("task", CLINICAL)
def test_a_clinical_task_speaks_the_protocol_and_keeps_its_tokenizer(task: str) -> None:
    assert words.speaks_findings(load_task(task))
    assert words.world_words(load_task(task)) is None


@pytest.mark.parametrize("world", WORLDS)
def test_the_words_are_the_same_each_time(world: str) -> None:
    assert words.world_words(load_task(world)) == words.world_words(load_task(world))
