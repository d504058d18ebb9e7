"""Any task of `clinical_envs` as a world, with its exact oracle behind the assessment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

from clinical_envs.adapters.dialogues import dialogue_for
from clinical_envs.case import Case, CaseStream, case_set
from clinical_envs.catalog import load_task
from clinical_envs.episode import Episode
from clinical_envs.errors import InvalidEpisode
from clinical_envs.protocol import Dialogue, Message
from clinical_envs.simulator import Action, Ask, Commit, Encounter
from clinical_envs.task import Task
from clinical_envs.verifier import Outcome, verify
from oracles.assessment import EPS, TOLERANCE, Assessment
from oracles.exact import exact_value
from oracles.oracle import Oracle
from oracles.policies import make_policy
from oracles.policy import Policy, View
from oracles.world import World


class ClinicalEncounter:
    """An encounter by action or by text; the dialogue is worded only for policies that read it."""

    def __init__(self, task: Task, case: Case, dialogue: type[Dialogue]) -> None:
        self._case = case
        self._encounter = Encounter(task, case)
        self._dialogue_type = dialogue
        self._dialogue: Dialogue | None = None
        self._spoke = False

    @property
    def over(self) -> bool:
        """Whether the episode has ended."""
        return self._encounter.over

    @property
    def view(self) -> View:
        """All that a policy may know."""
        return View(task=self._encounter.task, info=self._encounter.info, dialogue=self._messages)

    def step(self, action: Action | str) -> None:
        """Play one turn; text is read by the world's protocol."""
        if isinstance(action, str):
            self._spoke = True
            self._in_text().step(action)
        elif self._dialogue is not None:
            self._dialogue.play(action)
        else:
            self._encounter.step(action)

    def episode(self, *, policy: str, rollout: int, greedy: bool) -> Episode:
        """The finished record, with the raw texts where the policy spoke text."""
        raw = None
        if self._spoke:
            turns = self._in_text().messages
            raw = tuple(turn["content"] for turn in turns if turn["role"] == "assistant")
        return self._encounter.episode(policy=policy, rollout=rollout, greedy=greedy, raw=raw)

    def _messages(self) -> tuple[Message, ...]:
        return tuple(message.copy() for message in self._in_text().messages)

    def _in_text(self) -> Dialogue:
        if self._dialogue is None:
            played = self._encounter.actions
            self._encounter = Encounter(self._encounter.task, self._case)
            self._dialogue = self._dialogue_type(self._encounter)
            for action in played:
                self._dialogue.play(action)
        return self._dialogue


class ClinicalWorld:
    """A task with its oracle, as a world; its encounters are worded by the task's dialogue."""

    def __init__(self, task: Task, *, rho: float = 0.0) -> None:
        self.task = task
        self.rho = rho
        self._streams: dict[tuple[str, int], CaseStream] = {}
        self._oracle_plays: dict[Case, dict[str, Any]] = {}

    @cached_property
    def oracle(self) -> Oracle:
        """The exact oracle, solved on first use."""
        return Oracle(self.task)

    @property
    def key(self) -> str:
        """`id@version`."""
        return self.task.key

    @property
    def name(self) -> str:
        """Short name of the task."""
        return self.task.name

    @property
    def prevalence(self) -> Mapping[str, float]:
        """P(risk group)."""
        shares = self.task.group_prevalence.tolist()
        return dict(zip(self.task.risk_groups, shares, strict=True))

    @property
    def high_risk_group(self) -> str | None:
        """The group whose harm must not be traded for value."""
        return self.task.high_risk_group

    @property
    def families(self) -> tuple[str, ...]:
        """Family names."""
        return self.task.family_ids

    @property
    def decisions(self) -> tuple[str, ...]:
        """Decision names."""
        return self.task.decision_ids

    @cached_property
    def oracle_decisions(self) -> Mapping[str, float]:
        """P(decision) of the oracle, exact."""
        exact = exact_value(self.task, self.policy("oracle"))
        return {name: exact.decision_rate(name) for name in self.task.decision_ids}

    @property
    def headroom(self) -> tuple[float, float]:
        """V* and the value of the best constant decision."""
        return self.oracle.revealed_value(self.rho), self.oracle.best_constant[1]

    def cases(self, set_name: str) -> Sequence[Case]:
        """A named set of cases."""
        return case_set(self.task, set_name, self.rho).cases

    def policy(self, name: str) -> Policy:
        """A reference policy or a user's function."""
        return make_policy(name, self.oracle)

    def reset(self, case: Case) -> ClinicalEncounter:
        """Start an encounter."""
        return ClinicalEncounter(self.task, case, dialogue_for(self.task))

    def assess(self, episode: Episode) -> Assessment:
        """Verify and judge a finished record.

        Raises:
            InvalidEpisode: the record contradicts the task, itself, or the case it names.
        """
        outcome = verify(self.task, episode)
        task, info, regret, wasted = self.task, outcome.start, 0.0, 0
        net_voi = belief_regret = None
        for action in outcome.actions:
            values = self.oracle.values(info)
            regret += values.regret(action)
            if isinstance(action, Ask):
                repeat = info.knows(action.finding)
                wasted += repeat or values.best_net_voi <= TOLERANCE
                info = info.see(action.finding, outcome.final.answer(action.finding))
            else:
                info = info.waste()
                if isinstance(action, Commit):
                    net_voi = values.best_net_voi
                    belief_regret = float(values.commit.max() - values.of(action))
        informative = sum(1 << q for q in task.informative[outcome.family])
        decision = outcome.decision
        seen = {task.finding_ids[q]: present for q, present in outcome.final.seen()}
        return Assessment(
            episode=episode,
            case=episode.case_id or "",
            family=episode.family,
            group=None
            if outcome.state is None
            else task.risk_groups[task.group_of_state[outcome.state]],
            reward=outcome.reward,
            expected=outcome.expected,
            decision=None if decision is None else task.decision_ids[decision],
            turns=outcome.turns,
            asks=outcome.asks,
            repeats=outcome.repeats,
            invalid_turns=outcome.invalid_turns,
            regret=regret,
            informative_seen=bool(outcome.final.asked & informative),
            net_voi=net_voi,
            high_acuity=decision in task.high_acuity_decisions if task.high_acuity else None,
            supported=None if decision is None else task.supported(outcome.family, decision, seen),
            belief_regret=belief_regret,
            hedge=decision in task.hedge_decisions if task.hedges else None,
            wasted_asks=wasted,
            **self._oracle_on(self._case(episode, outcome), expected=outcome.expected),
        )

    def _oracle_on(self, case: Case | None, *, expected: bool) -> dict[str, Any]:
        """What the oracle would have done, asked and earned on the same case.

        expected: the episode's reward is an expectation, which no realised one compares with.
        """
        if case is None:
            return {}
        if case not in self._oracle_plays:
            self._oracle_plays[case] = self._play_oracle(case)
        play = self._oracle_plays[case]
        return play | {"oracle_reward": None, "guess_share": None} if expected else play

    def _play_oracle(self, case: Case) -> dict[str, Any]:
        task, info, asks = self.task, case.start(self.task), 0
        while isinstance(action := self.oracle.act(info), Ask):
            info = info.see(action.finding, case.answers[action.finding])
            asks += 1
        decision, utility = action.decision, task.utility_matrix[case.state]
        reward = float(utility[decision]) - task.question_cost * asks
        return {
            "oracle_reward": reward,
            "oracle_asks": asks,
            "oracle_decision": task.decision_ids[decision],
            "oracle_hedge": decision in task.hedge_decisions if task.hedges else None,
            "oracle_high_acuity": decision in task.high_acuity_decisions
            if task.high_acuity
            else None,
            "guess_share": float((utility >= reward - EPS - TOLERANCE).mean()),
        }

    def _case(self, episode: Episode, outcome: Outcome) -> Case | None:
        """The case an episode names, drawn again and held against the record."""
        ref = episode.case
        if ref is None:
            return None
        stream = self._streams.get((ref.split, ref.seed))
        if stream is None:
            stream = CaseStream(self.task, ref.split, ref.seed)
            self._streams[ref.split, ref.seed] = stream
        revealed = tuple(q for q, _ in outcome.start.seen())
        case = replace(stream[ref.index], revealed=revealed)
        answers = all(case.answers[q] == present for q, present in outcome.final.seen())
        same = case.family == outcome.family and outcome.state in (None, case.state) and answers
        if not same or ref.hash not in (None, case.hash):
            raise InvalidEpisode(
                f"the record contradicts case {episode.case_id} of {self.task.key}; was it made by "
                "another version of the task?"
            )
        return case


@lru_cache(maxsize=32)
def _world_of(task: Task) -> ClinicalWorld:
    """One world for equal content, so that its oracle is solved once; an edited file is another."""
    return ClinicalWorld(task)


def make_world(task: str | Path | Task | World) -> World:
    """A world by task name, id, `id@version`, file, from a task, or itself.

    Raises:
        UnknownTask: no such task, or not in this version.
    """
    if isinstance(task, str | Path | Task):
        return _world_of(load_task(task))
    return task
