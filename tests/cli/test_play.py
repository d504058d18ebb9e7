from __future__ import annotations

import builtins

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clinical_envs import Ask, CaseStream, Commit, load_task
from training.cli.play_command import read_choice

DX = load_task("diagnostics")


def test_a_case_is_played_from_numbers_names_and_beginnings(run):
    printed = run("play", "titration", "--seed", 3, stdin="1\nhigh_cha2ds2vasc\nred\n").stdout
    case = CaseStream(load_task("titration"), "train", 3)[0]
    assert "train/3/0" in printed
    answers = ["yes" if yes else "no" for yes in case.answers[:2]]
    assert f"seen: prior_vte {answers[0]}, high_cha2ds2vasc {answers[1]}" in printed
    assert "[cost 0.06, 8 turns left]" in printed
    assert load_task("titration").state_ids[case.state] in printed
    assert "The oracle on the same case: ask high_cha2ds2vasc" in printed
    assert printed.count("= reward ") == 2


def test_hints_are_shown_only_when_asked_for_and_say_that_they_are_privileged(run):
    plain = run("play", "titration", "--seed", 3, stdin="q\n").stdout
    hinted = run("play", "titration", "--seed", 3, "--hints", stdin="q\n").stdout
    for mark in ("posterior", "net", "V*", "privileged"):
        assert mark in hinted
        assert mark not in plain


@pytest.mark.parametrize("hints", [(), ("--hints",)])
def test_cases_that_differ_only_in_what_is_hidden_print_the_same(run, hints):
    cases = [CaseStream(load_task("titration"), "train", seed)[0] for seed in range(40)]
    first = cases[0]
    other = next(c for c in cases if c.state != first.state and c.answers[0] == first.answers[0])
    texts = [
        run("play", "titration", "--seed", case.seed, *hints, stdin="1\nq\n").stdout.splitlines()
        for case in (first, other)
    ]
    named = [line for line in texts[0] if line.startswith("This is case train/0/0")]
    assert len(named) == 1
    shown = [[line for line in text if not line.startswith("This is case")] for text in texts]
    assert shown[0] == shown[1]


def test_a_slip_of_the_keyboard_costs_nothing(run):
    printed = run("play", "diagnostics", "--seed", 1, stdin="fevr\n99\n\nhyp\n?\nq\n").stdout
    assert "did you mean 'fever'?" in printed
    assert "no number 99; they run from 1 to 23" in printed
    assert printed.count("[cost 0.00, 12 turns left]") == 6
    assert "nothing is recorded" in printed


def test_a_repeated_ask_is_charged_and_says_so(run):
    printed = run("play", "titration", "--seed", 3, stdin="1\n1\n").stdout
    assert "asked before: charged, nothing new" in printed
    assert "[cost 0.06, 8 turns left]" in printed


def test_running_out_of_turns_ends_in_no_decision(run):
    printed = run("play", "titration", "--seed", 3, stdin="1\n" * 10).stdout
    assert "last turn, decide now" in printed
    assert "no decision (out of turns)" in printed


def test_the_end_of_input_stops_politely(run):
    assert "nothing is recorded" in run("play", "titration", "--seed", 3, stdin="1\n").stdout


def test_an_interrupt_stops_politely(run, monkeypatch):
    def interrupt(prompt: str) -> str:
        raise KeyboardInterrupt

    monkeypatch.setattr(builtins, "input", interrupt)
    assert "nothing is recorded" in run("play", "titration").stdout


def test_a_negative_index_is_refused(error):
    assert "non-negative" in error("play", "titration", "--index", -1)


@pytest.mark.parametrize("q", range(len(DX.findings)))
def test_every_finding_is_reached_by_its_number_and_its_name(q):
    assert read_choice(DX, str(q + 1)) == Ask(q)
    assert read_choice(DX, DX.finding_ids[q].upper().replace("_", " ")) == Ask(q)


def test_decisions_are_numbered_after_the_findings():
    assert read_choice(DX, "19") == Commit(0)
    assert read_choice(DX, "emergent") == Commit(DX.decision("emergent_tx"))


def test_an_ambiguous_beginning_names_what_it_could_be():
    answer = read_choice(DX, "hyp")
    assert answer == "'hyp' could be 1 hypotension, 11 hypoxia; type more of it, or the number"


@given(st.text(max_size=300))
def test_any_text_is_an_action_or_one_line(text):
    choice = read_choice(DX, text.strip())
    assert isinstance(choice, Ask | Commit) or (isinstance(choice, str) and len(choice) < 900)


@pytest.mark.parametrize(
    ("world", "subject"),
    [("factcheck", "Claim: "), ("checkedqa", "Question: "), ("rubric", "The message: ")],
)
def test_a_world_with_its_own_words_shows_its_subject_and_what_was_found(run, world, subject):
    printed = run("play", world, "--seed", "5", "--index", "0", stdin="1\n2\nq\n").stdout
    assert subject in printed
    shown = printed.split(subject)[1]
    assert len(shown.split("seen: ")[0]) > 150  # a document, not a bare yes or no
