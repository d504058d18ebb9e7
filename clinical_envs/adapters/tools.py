"""The encounter as tools, for trainers that give a model functions to call.

The contract is that of TRL's `environment_factory` (read in its source, 1.10): a class made
without arguments; `reset(**row)` takes a row of the data set and returns text that is added to the
prompt; `get_reward()` scores the finished rollout; every other public method is a tool that the
model can call. Instances are kept and reset again.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, ClassVar

from clinical_envs.adapters.encounters import facts, index_option
from clinical_envs.belief import InfoState
from clinical_envs.case import Case, CaseStream
from clinical_envs.catalog import load_task
from clinical_envs.errors import EpisodeOver, InvalidArgument
from clinical_envs.protocol import reply
from clinical_envs.simulator import Action, Ask, Commit, Encounter, Invalid
from clinical_envs.task import Task


class ToolEnvironment:
    """One encounter with two tools. Made by `tool_environment`, which fixes the task.

    Nothing but the tools, `reset` and `get_reward` is public, because a trainer offers every
    public method to the model.
    """

    _task: ClassVar[Task]
    _rho: ClassVar[float]
    _case: Case
    _encounter: Encounter | None = None

    def reset(self, **row: Any) -> str:
        """Start the case of a row and describe it.

        Args:
            row: must have `split`, `seed` and `index`, so that every rollout of a row meets the
                same patient; other columns are ignored.

        Raises:
            InvalidArgument: the row names no case.
        """
        for column in ("split", "seed", "index"):
            if column not in row:
                raise InvalidArgument(f"the row has no {column!r}; give split, seed and index")
        index = index_option({"index": row["index"]})
        stream = CaseStream(self._task, row["split"], row["seed"], self._rho)
        self._case = stream.block(index or 0, 1)[0]
        self._encounter = Encounter(self._task, self._case)
        return _briefing(self._task, self._encounter.info)

    def ask(self, finding: str) -> str:
        """Ask for one finding about the patient.

        Args:
            finding: Name of the finding, as listed.

        Returns:
            The answer, and the turns that are left.
        """
        return self._play(_named(finding, self._task.finding_index, Ask, "unknown_finding"))

    def commit(self, decision: str) -> str:
        """Commit to a decision. This ends the encounter.

        Args:
            decision: Name of the decision, as listed.

        Returns:
            The decision that was made.
        """
        return self._play(_named(decision, self._task.decision_index, Commit, "unknown_decision"))

    def get_reward(self) -> float:
        """R = U - c · n_charged; without a commit, U is the utility of no decision."""
        return float(facts(self._started(), self._case)["reward"])

    def _play(self, action: Action) -> str:
        encounter = self._started()
        # After the end this raises, and the trainer hands the message to the model as the result.
        transition = encounter.step(action)
        if isinstance(action, Commit):
            return json.dumps({"committed": self._task.decision_ids[action.decision]})
        return reply(self._task, action, transition.answer, encounter.info.turns_left)

    def _started(self) -> Encounter:
        if self._encounter is None:
            raise EpisodeOver("no episode has started; call reset(split=..., seed=..., index=...)")
        return self._encounter


def tool_environment(task: str | Path | Task, rho: float = 0.0) -> type[ToolEnvironment]:
    """The tool environment of a task, as a class to hand to a trainer.

    >>> environment = tool_environment("sore_throat")()
    >>> print(environment.reset(split="train", seed=1, index=0).splitlines()[1])
    A parent brings a six-year-old with a sore throat.
    >>> environment.ask("fever")
    '{"finding": "fever", "answer": "no", "turns_left": 5}'
    >>> environment.commit("self_care"), environment.get_reward()
    ('{"committed": "self_care"}', 0.77)
    """
    loaded = load_task(task)
    CaseStream(loaded, "train", 0, rho)  # refuses a bad rho now, not at the reset
    name = loaded.id.partition("-")[0] + "ToolEnvironment"
    return type(name, (ToolEnvironment,), {"_task": loaded, "_rho": rho})


def _named(
    name: object, positions: dict[str, int], kind: type[Ask] | type[Commit], unknown: str
) -> Action:
    """The action of a name; a model may pass what is no name, or no text at all."""
    if not isinstance(name, str):
        return Invalid("not_text")
    return kind(positions[name]) if name in positions else Invalid(unknown)


def _briefing(task: Task, info: InfoState) -> str:
    """The prompt of the text protocol, for a model that calls tools instead of writing JSON."""
    decisions = "\n".join(f"- {decision.id}: {decision.text}" for decision in task.decisions)
    lines = [
        task.setting,
        task.families[info.family].text,
        f"Findings: {', '.join(task.finding_ids)}",
        f"Decisions:\n{decisions}",
        f"Each question costs {task.question_cost:g}. You have {task.turn_cap} turns, and the last "
        "must be a commit.",
    ]
    known = {task.finding_ids[q]: "yes" if present else "no" for q, present in info.seen()}
    if known:
        lines.append(f"Known at the start: {json.dumps(known)}")
    return "\n".join(lines)
