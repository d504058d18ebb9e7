"""Tasks of one content are one task; a changed copy is another, and is checked."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from pydantic import ValidationError

from clinical_envs.catalog import load_task
from clinical_envs.task import Task
from tests.core.small_task import small_task
from tests.strategies import task_data, tasks


@given(task_data(certain=True))
def test_tasks_of_one_content_are_equal_and_hash_alike(data: dict[str, Any]) -> None:
    one, other = Task.model_validate(data), Task.model_validate(data)
    assert one.prior.sum() == pytest.approx(1.0)  # the arrays of one are made, of the other not
    assert one == other
    assert hash(one) == hash(other)
    assert len({one, other}) == 1


@given(tasks())
def test_a_copy_is_the_same_task(task: Task) -> None:
    again = pickle.loads(pickle.dumps(task))
    for other in (task.model_copy(), task.model_copy(deep=True), copy.deepcopy(task), again):
        assert other == task
        assert hash(other) == hash(task)


@pytest.mark.parametrize(
    "change",
    [
        {"question_cost": 0.9},
        {"turn_cap": 12},
        {"title": "Another"},
        {"sources": ("another",)},
        {"hedges": ()},
        {"no_decision": "worst"},
    ],
)
def test_a_changed_copy_is_another_task_with_arrays_of_its_own(change: dict[str, Any]) -> None:
    task = small_task()
    assert task.no_decision_utility.tolist() == [-0.6, -0.5, -1.0]
    changed = task.model_copy(update=change)
    fresh = Task.model_validate(task.model_dump() | change)
    assert changed == fresh != task
    assert changed.digest == fresh.digest != task.digest
    np.testing.assert_array_equal(changed.no_decision_utility, fresh.no_decision_utility)


def test_a_changed_copy_gets_new_numbers() -> None:
    task = small_task()
    assert task.prior.tolist() == [0.7, 0.25, 0.05]
    flat = tuple(state.model_copy(update={"prior": 1 / 3}) for state in task.states)
    changed = task.model_copy(update={"states": flat})
    np.testing.assert_allclose(changed.prior, 1 / 3)
    assert task.prior.tolist() == [0.7, 0.25, 0.05]


def test_a_change_that_breaks_a_rule_is_refused() -> None:
    with pytest.raises(ValidationError, match="more than 1 turns"):
        small_task().model_copy(update={"turn_cap": 1})


def test_a_task_equals_nothing_else() -> None:
    assert small_task() != load_task("diagnostics")
    assert small_task() != small_task().key
    assert small_task() != small_task().model_dump()
