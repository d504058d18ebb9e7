"""A task file with a wrong field is refused on one line: the field, the value and the mend."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from clinical_envs.catalog import check_task_text
from tests.core.small_task import as_yaml, refusal, small_task_data

Change = Callable[[dict[str, Any]], object]


def _set(*path: str | int, to: object) -> Change:
    def change(data: dict[str, Any]) -> None:
        at: Any = data
        for part in path[:-1]:
            at = at[part]
        at[path[-1]] = to

    return change


def _remove(*path: str | int) -> Change:
    def change(data: dict[str, Any]) -> None:
        at: Any = data
        for part in path[:-1]:
            at = at[part]
        del at[path[-1]]

    return change


_LEAF = {"commit": "reassure"}
_DEEP = {
    "ask": "exudate",
    "yes": _LEAF,
    "no": {
        "ask": "trismus",
        "yes": _LEAF,
        "no": {"ask": "cough", "yes": _LEAF, "no": _LEAF},
    },
}
_TWICE = {"ask": "cough", "yes": {"ask": "cough", "yes": _LEAF, "no": _LEAF}, "no": _LEAF}
_NAMES = {"states": 256, "families": 64, "decisions": 64}
_CONDITIONS = ("high_acuity", "refer", "child")
_PRESENT = (*_CONDITIONS, 0, "present", 0)

# What is changed, and what the message must hold: field, value, mend.
BROKEN: dict[str, tuple[Change, tuple[str, ...]]] = {
    "probability is NaN": (
        _set("findings", 0, "p", "child", 1, to=math.nan),
        ("findings.exudate.p.child.1", "finite", "nan"),
    ),
    "probability is infinite": (
        _set("findings", 0, "p", "child", 1, to=math.inf),
        ("findings.exudate.p.child.1", "inf"),
    ),
    "probability is above 1": (
        _set("findings", 0, "p", "child", 1, to=1.2),
        ("findings.exudate.p.child.1", "less than or equal to 1", "1.2"),
    ),
    "probability is below 0": (
        _set("findings", 2, "p", "adult", 0, to=-0.1),
        ("findings.cough.p.adult.0", "greater than or equal to 0", "-0.1"),
    ),
    "probability is a word": (
        _set("findings", 0, "p", "child", 1, to="likely"),
        ("findings.exudate.p.child.1", "valid number", "'likely'"),
    ),
    "probability misses a state": (
        _set("findings", 0, "p", "child", to=[0.2, 0.7]),
        ("findings.exudate.p.child", "2 numbers for 3 states", "give one a state"),
    ),
    "probability misses a family": (
        _remove("findings", 0, "p", "adult"),
        ("findings.exudate.p", "family 'adult'", "add it"),
    ),
    "probability of an unknown family": (
        _set("findings", 0, "p", "adults", to=[0.1, 0.1, 0.1]),
        ("findings.exudate.p", "'adults'", "did you mean 'adult'?"),
    ),
    "prior is NaN": (_set("states", 0, "prior", to=math.nan), ("states.viral.prior", "nan")),
    "prior is negative": (_set("states", 0, "prior", to=-0.7), ("states.viral.prior", "-0.7")),
    "priors do not sum to 1": (
        _set("states", 0, "prior", to=0.6),
        ("states", "priors sum to 0.9", "not 1", "change prior"),
    ),
    "priors are off by a little": (
        _set("states", 0, "prior", to=0.70001),
        ("states", "priors sum to 1.00001", "change prior"),
    ),
    "utility row is short": (
        _set("utility", "strep", to=[0.1, 0.2]),
        ("utility.strep", "2 numbers for 3 decisions", "give one a decision"),
    ),
    "utility row is long": (
        _set("utility", "strep", to=[0.1, 0.2, 0.3, 0.4]),
        ("utility.strep", "4 numbers for 3 decisions", "give one a decision"),
    ),
    "utility is NaN": (_set("utility", "strep", 0, to=math.nan), ("utility.strep.0", "nan")),
    "utility misses a state": (
        _remove("utility", "abscess"),
        ("utility", "state 'abscess'", "add it"),
    ),
    "utility of an unknown state": (
        _set("utility", "strepp", to=[0, 0, 0]),
        ("utility", "'strepp'", "did you mean 'strep'?"),
    ),
    "no_decision above the worst decision": (
        _set("no_decision", "viral", to=-0.5),
        ("no_decision.viral", "-0.5", "above the worst decision", "-0.6", "lower it"),
    ),
    "no_decision is NaN": (
        _set("no_decision", "viral", to=math.nan),
        ("no_decision.viral: ", "finite", "nan"),
    ),
    "no_decision is another word": (
        _set("no_decision", to="best"),
        ("no_decision: input should be 'worst', got 'best'",),
    ),
    "no_decision is a list": (
        _set("no_decision", to=[0.1]),
        ("no_decision: should be a mapping, got [0.1]",),
    ),
    "no_decision misses a state": (
        _remove("no_decision", "viral"),
        ("no_decision", "state 'viral'", "add it"),
    ),
    "finding id stands twice": (
        _set("findings", 1, "id", to="exudate"),
        ("findings", "'exudate' stands twice", "unique"),
    ),
    "state id stands twice": (
        _set("states", 1, "id", to="viral"),
        ("states", "'viral' stands twice", "unique"),
    ),
    "decision id stands twice": (
        _set("decisions", 1, "id", to="refer"),
        ("decisions", "'refer' stands twice", "unique"),
    ),
    "family id stands twice": (
        _set("families", 1, "id", to="child"),
        ("families", "'child' stands twice", "unique"),
    ),
    "hedge stands twice": (
        _set("hedges", to=["antibiotic", "antibiotic"]),
        ("hedges", "'antibiotic' stands twice", "unique"),
    ),
    "hedge is unknown": (
        _set("hedges", to=["antibiotics"]),
        ("hedges", "'antibiotics'", "did you mean 'antibiotic'?"),
    ),
    "risk group is unknown": (
        _set("states", 0, "risk_group", to="lo"),
        ("states.viral.risk_group", "'lo'", "did you mean 'low'?"),
    ),
    "risk group is empty": (
        _set("risk_groups", to=["low", "urgent", "other"]),
        ("risk_groups", "'other'", "remove it"),
    ),
    "high_risk_group is unknown": (
        _set("high_risk_group", to="urgnt"),
        ("high_risk_group", "'urgnt'", "did you mean 'urgent'?"),
    ),
    "finding id has a Cyrillic look-alike": (
        _set("findings", 0, "id", to="\u0435xudate"),
        ("findings.\u0435xudate.id", "should match pattern", "\u0435xudate"),
    ),
    "finding id is fullwidth": (
        _set("findings", 2, "id", to="\uff43ough"),
        (".id", "should match pattern", "\uff43ough"),
    ),
    "task id ends with a line break": (
        _set("id", to="SoreThroat-v0\n"),
        ("id", "should match pattern", "'SoreThroat-v0\\n'"),
    ),
    "decision id is in capitals": (
        _set("decisions", 0, "id", to="Reassure"),
        ("decisions.Reassure.id", "should match pattern"),
    ),
    "task id has Arabic digits": (
        _set("id", to="SoreThroat-v\u0660"),
        ("id: ", "should match pattern", "\u0660"),
    ),
    "version has Arabic digits": (
        _set("history", 0, "version", to="\u0661.\u0660.\u0660"),
        ("history.0.version: ", "should match pattern", "\u0661"),
    ),
    "date has Arabic digits": (
        _set("history", 0, "date", to="202\u0666-01-01"),
        ("history.0.date: ", "should match pattern", "\u0666"),
    ),
    "task id has no version": (
        _set("id", to="SoreThroat"),
        ("id", "should match pattern", "'SoreThroat'"),
    ),
    "evidence names an unknown finding": (
        _set(*_PRESENT, to="trismuss"),
        ("high_acuity.refer.child", "'trismuss'", "did you mean 'trismus'?"),
    ),
    "evidence names an uninformative finding": (
        _set(*_PRESENT, to="cough"),
        ("high_acuity.refer.child", "'cough'", "no information", "remove it"),
    ),
    "evidence of an unknown decision": (
        _set("high_acuity", "refr", to={}),
        ("high_acuity", "'refr'", "did you mean 'refer'?"),
    ),
    "evidence misses a family": (
        _remove("high_acuity", "refer", "adult"),
        ("high_acuity.refer", "family 'adult'", "add it"),
    ),
    "evidence counts to zero": (
        _set(*_CONDITIONS, 0, "at_least", to=0),
        ("high_acuity.refer.child.0", "at_least", "greater than or equal to 1", "0"),
    ),
    "evidence counts above the list": (
        _set(*_CONDITIONS, 0, "at_least", to=2),
        ("high_acuity.refer.child.0: at_least is 2 of 1 findings; lower it",),
    ),
    "evidence lists a finding twice": (
        _set(*_CONDITIONS, 0, to={"at_least": 2, "asked": ["trismus", "trismus"]}),
        ("high_acuity.refer.child.0: 'trismus' is listed twice; remove one",),
    ),
    "evidence weighs a finding against itself": (
        _set(*_CONDITIONS, 0, to={"more_present": ["trismus"], "than": ["trismus"]}),
        ("high_acuity.refer.child.0: 'trismus' is listed twice; remove one",),
    ),
    "evidence gives both lists": (
        _set(*_CONDITIONS, 0, "asked", to=["exudate"]),
        ("high_acuity.refer.child.0: give exactly one of 'present' and 'asked'",),
    ),
    "evidence is misspelt": (
        _set(*_CONDITIONS, 0, to={"more_presnt": ["trismus"], "than": ["exudate"]}),
        ("high_acuity.refer.child.0.more_presnt: unknown field", "did you mean 'more_present'?"),
    ),
    "evidence is a word": (
        _set(*_CONDITIONS, 0, to="trismus"),
        ("high_acuity.refer.child.0: should be a mapping, got 'trismus'",),
    ),
    "checklist is deeper than the cap": (
        _set("checklist", "adult", to=_DEEP),
        (
            "checklist.adult: the path exudate no, trismus no, cough no needs more than 3 turns",
            "commit earlier or raise turn_cap",
        ),
    ),
    "checklist misspells a leaf": (
        _set("checklist", "child", "yes", to={"comit": "refer"}),
        ("checklist.child.yes.comit: unknown field; did you mean 'commit'?",),
    ),
    "checklist misspells a fork": (
        _set("checklist", "child", to={"aks": "trismus", "yes": _LEAF, "no": _LEAF}),
        ("checklist.child.aks: unknown field; did you mean 'ask'?",),
    ),
    "checklist branch is a word": (
        _set("checklist", "child", "yes", to="refer"),
        ("checklist.child.yes: should be a mapping, got 'refer'",),
    ),
    "checklist asks twice": (
        _set("checklist", "adult", to=_TWICE),
        ("checklist.adult", "'cough'", "twice"),
    ),
    "checklist asks an unknown finding": (
        _set("checklist", "adult", "ask", to="trismos"),
        ("checklist.adult", "'trismos'", "did you mean 'trismus'?"),
    ),
    "checklist commits to an unknown decision": (
        _set("checklist", "child", "yes", "commit", to="reefer"),
        ("checklist.child", "'reefer'", "did you mean 'refer'?"),
    ),
    "checklist misses a family": (
        _remove("checklist", "child"),
        ("checklist", "family 'child'", "add it"),
    ),
    "checklist has no leaf": (
        _remove("checklist", "child", "yes"),
        ("checklist.child.yes", "missing", "add it"),
    ),
    "question cost is negative": (_set("question_cost", to=-0.03), ("question_cost", "-0.03")),
    "question cost is NaN": (_set("question_cost", to=math.nan), ("question_cost", "nan")),
    "turn cap is zero": (_set("turn_cap", to=0), ("turn_cap", "greater than or equal to 1")),
    "turn cap is no integer": (_set("turn_cap", to=2.5), ("turn_cap", "2.5")),
    "turn cap is absurd": (_set("turn_cap", to=10**9), ("turn_cap", "1000")),
    "no findings": (_set("findings", to=[]), ("findings", "at least 1")),
    "one decision": (
        lambda data: data.update(decisions=data["decisions"][:1]),
        ("decisions", "at least 2"),
    ),
    "a field is missing": (_remove("question_cost"), ("question_cost", "missing", "add it")),
    "a field is misspelt": (
        lambda data: data.update(question_price=data["question_cost"]),
        ("question_price", "unknown field", "did you mean 'question_cost'?"),
    ),
    "a part has a misspelt field": (
        _set("findings", 0, "domian", to="throat"),
        ("findings.exudate.domian", "unknown field"),
    ),
    "history ends at another version": (
        _set("version", to="1.0.1"),
        ("history", "1.0.0", "1.0.1", "add a line"),
    ),
    "history has no date": (_set("history", 0, "date", to="today"), ("history.0.date", "'today'")),
    "text is empty": (_set("title", to=""), ("title", "at least 1")),
    "text is a mapping": (_set("setting", to={"a": 1}), ("setting", "valid string")),
}


# A mistake that only one part of the file shows is one problem.
ALONE = (
    "no_decision is NaN",
    "no_decision is another word",
    "evidence gives both lists",
    "evidence is a word",
    "checklist branch is a word",
    "checklist has no leaf",
)


@pytest.mark.parametrize("what", ALONE)
def test_a_part_of_two_kinds_is_reported_for_the_kind_that_was_meant(what: str) -> None:
    data = small_task_data()
    BROKEN[what][0](data)
    assert len(check_task_text(as_yaml(data), "mine.yaml")[1]) == 1


@pytest.mark.parametrize("what", _NAMES)
def test_there_are_so_many_states_families_and_decisions_and_no_more(what: str) -> None:
    most = _NAMES[what]
    data = small_task_data() | {what: [{"id": f"x{i}", "text": "x"} for i in range(most + 1)]}
    for state in data["states"]:
        state |= {"risk_group": "low", "prior": 0.5}
    problems = check_task_text(as_yaml(data), "mine.yaml")[1]
    assert problems[0].startswith(f"mine.yaml: {what}: ")
    assert f"at most {most} items" in problems[0]
    del data[what][-1]
    assert "at most" not in check_task_text(as_yaml(data), "mine.yaml")[1][0]


@pytest.mark.parametrize(
    "path", [("a\nb",), ("utility", "vi\nral"), ("findings", 0, "p", "a\r\nb")]
)
def test_a_key_of_two_lines_is_reported_on_one(path: tuple[str | int, ...]) -> None:
    data = small_task_data()
    _set(*path, to=1)(data)
    _, problems = check_task_text(as_yaml(data), "mi\nne.yaml")
    for problem in problems:
        assert problem.splitlines() == [problem]
        assert problem.startswith("mi ne.yaml: ")


def test_an_empty_list_of_evidence_asks_for_nothing_in_that_family() -> None:
    data = small_task_data()
    data["high_acuity"]["refer"]["child"] = []
    task, problems = check_task_text(as_yaml(data), "mine.yaml")
    assert task is not None, problems
    assert task.supported(0, 2, {}) is True
    assert task.supported(1, 2, {}) is False


@pytest.mark.parametrize("what", BROKEN)
def test_a_broken_file_is_refused_with_field_value_and_mend(what: str, tmp_path: Path) -> None:
    change, fragments = BROKEN[what]
    data = small_task_data()
    change(data)
    message = refusal(tmp_path, as_yaml(data))
    assert [part for part in fragments if part not in message] == []


def test_the_first_problem_is_raised_and_the_others_are_counted(tmp_path: Path) -> None:
    data = small_task_data()
    data["turn_cap"] = 0
    del data["title"]
    data["question_cost"] = -1
    text = as_yaml(data)
    assert "(and 2 more; clinical-envs tasks check)" in refusal(tmp_path, text)
    assert len(check_task_text(text, "mine.yaml")[1]) == 3
