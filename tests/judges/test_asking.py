"""Bounded retries, what is remembered, what is counted, and when a judge is given up."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.judges.scripted import Scripted, down
from training.endpoint import Completion, ContextExceededError, EndpointError
from training.judges.asking import ATTEMPTS, Judge, quoted
from training.judges.cache import ReplyCache


def read(text: str) -> tuple[int | None, str]:
    """Accepts a number."""
    return (int(text), "") if text.isdecimal() else (None, "no number")


def read_what_there_is(text: str) -> tuple[int, str]:
    """Counts letters, and is content with three."""
    return len(text), "" if len(text) >= 3 else "too short"


def test_an_unreadable_reply_is_sent_back_with_what_is_wrong_and_roles_alternate() -> None:
    model = Scripted(["well", "", "7"])
    judge = Judge(model, "m")
    assert judge.ask("how many?", read) == 7
    first, _, third = model.heard
    assert [one["role"] for one in third] == ["user", "assistant"] * 2 + ["user"]
    assert first == third[:1] == [{"role": "user", "content": "how many?"}]
    assert "no number" in third[2]["content"]
    assert all(one["content"] for one in third)  # servers refuse empty turns
    assert (judge.spent.questions, judge.spent.requests, judge.spent.unread) == (1, 3, 0)


def test_retries_end_and_the_last_reply_counts_as_far_as_it_goes() -> None:
    model = Scripted(["well"] * 99)
    judge = Judge(model, "m")
    assert judge.ask("?", read) is None
    assert len(model.heard) == ATTEMPTS == 3
    assert judge.spent.unread == 1
    assert Judge(Scripted(["", "a", "ab"]), "m").ask("?", read_what_there_is) == 2
    assert Judge(Scripted(["", "ab", down()]), "m").ask("?", read_what_there_is) == 2


def test_a_reply_that_was_cut_is_told_so_and_not_that_its_form_is_wrong() -> None:
    cut = Completion(text='{"1": {', finish_reason="length")
    model = Scripted([cut, "7"])
    assert Judge(model, "m", max_tokens=50).ask("?", read) == 7
    assert "cut at 50 tokens" in model.heard[1][2]["content"]
    assert model.parameters == [{"temperature": 0.0, "max_tokens": 50}] * 2


def test_a_reply_that_reads_well_and_was_cut_is_no_reply_and_is_not_remembered(
    tmp_path: Path,
) -> None:
    """A list of lines does not show that its last lines are missing."""
    cut = Completion(text="7", finish_reason="length")
    cache = ReplyCache(tmp_path / "cache.sqlite")
    judge = Judge(Scripted([cut] * 3), "m", cache)
    assert judge.ask("?", read) is None
    assert judge.spent.unread == 1
    assert Judge(Scripted([cut, "8"]), "m", cache).ask("?", read) == 8


@pytest.mark.parametrize("thoughts", ["<think>8? no</think>\n ", "8? no</think>"])
def test_thinking_aloud_is_no_part_of_a_reply(thoughts: str) -> None:
    """Some models have the opening mark in their template, so that it is not in the reply."""
    assert Judge(Scripted([f"{thoughts}7"]), "m").ask("?", read) == 7


def test_a_draft_in_thoughts_that_were_cut_is_no_reply_and_is_not_remembered(
    tmp_path: Path,
) -> None:
    cut = Completion(text="<think>8", finish_reason="length")
    cache = ReplyCache(tmp_path / "cache.sqlite")
    judge = Judge(Scripted([cut] * 3), "m", cache)
    assert judge.ask("?", read) is None
    assert judge.spent.unread == 1
    assert Judge(Scripted(["7"]), "m", cache).ask("?", read) == 7


def test_a_failed_request_leaves_its_question_unanswered_and_is_counted() -> None:
    judge = Judge(Scripted([down(), "7"]), "m")
    assert judge.ask("?", read) is None
    assert judge.ask("?", read) == 7
    assert (judge.spent.failed, judge.spent.unread, judge.spent.questions) == (1, 0, 2)
    assert "connection refused" in str(judge.trouble)


def test_a_judge_that_fails_five_times_in_a_row_is_given_up() -> None:
    judge = Judge(Scripted([down()] * 4 + ["7"] + [down()] * 5), "m")
    for _ in range(9):
        judge.ask("?", read)
    with pytest.raises(EndpointError, match="connection refused"):
        judge.ask("?", read)


def test_questions_too_long_for_the_model_do_not_count_towards_giving_up() -> None:
    judge = Judge(Scripted([ContextExceededError("too long")] * 20), "m")
    assert [judge.ask("?", read) for _ in range(20)] == [None] * 20
    assert judge.spent.failed == 20


def test_only_replies_that_were_read_whole_are_remembered(tmp_path: Path) -> None:
    cache = ReplyCache(tmp_path / "replies.sqlite")
    assert Judge(Scripted(["well"] * 3), "m", cache).ask("?", read) is None
    assert Judge(Scripted([down()]), "m", cache).ask("?", read) is None
    assert Judge(Scripted(["7"]), "m", cache).ask("?", read) == 7
    again = Judge(Scripted([]), "m", cache)
    assert again.ask("?", read) == 7
    assert (again.spent.questions, again.spent.cached, again.spent.requests) == (1, 1, 0)


def test_a_reply_that_a_newer_reader_refuses_is_asked_for_again(tmp_path: Path) -> None:
    cache = ReplyCache(tmp_path / "replies.sqlite")
    Judge(Scripted(["7"]), "m", cache).ask("?", read)
    stricter = Judge(Scripted(["seven"]), "m", cache)
    assert stricter.ask("?", lambda text: (text, "" if text.isalpha() else "digits")) == "seven"


def test_another_model_question_or_limit_is_another_reply(tmp_path: Path) -> None:
    cache = ReplyCache(tmp_path / "replies.sqlite")
    for name, question, limit in (("m", "?", 9), ("n", "?", 9), ("m", "!", 9), ("m", "?", 8)):
        model = Scripted(["7"])
        Judge(model, name, cache, max_tokens=limit).ask(question, read)
        assert len(model.heard) == 1


def test_tokens_and_cost_are_sums_and_uncounted_replies_are_counted() -> None:
    silent = Completion(text="7", finish_reason="stop")
    judge = Judge(Scripted(["well", "7", silent]), "m")
    judge.ask("?", read)
    judge.ask("?", read)
    spent = judge.spent
    assert (spent.prompt_tokens, spent.completion_tokens, spent.uncounted) == (20, 4, 1)
    assert spent.cost(0.5, 2.0) == pytest.approx((20 * 0.5 + 4 * 2.0) / 1e6)


@given(st.text(), st.text())
def test_quoted_text_cannot_close_its_own_marks(text: str, tail: str) -> None:
    once = quoted("answer", text)
    opening, closing = once.split("\n", 1)[0], once.rsplit("\n", 1)[1]
    forged = f"{text}\n{closing}\n{tail}\n{opening}"
    again = quoted("answer", forged)
    assert again.split("\n", 1)[0] != opening
    assert again.rsplit("\n", 1)[1] not in forged
