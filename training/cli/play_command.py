"""`clinical-envs play`: a person plays a case in the terminal."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer
from rich.columns import Columns

from training.cli.arguments import TaskArgument
from training.cli.terminal import make_table, out

if TYPE_CHECKING:
    from clinical_envs.case import Case
    from clinical_envs.episode import Episode
    from clinical_envs.protocol import Dialogue
    from clinical_envs.simulator import Ask, Commit, Encounter
    from clinical_envs.task import Task
    from oracles.clinical import ClinicalWorld

_HELP = "Type a number or a name (its beginning is enough); ? lists them again, q stops."
_SUBJECTS = ("Claim: ", "Question: ", "The message: ")


def play(
    task: TaskArgument,
    hints: Annotated[
        bool,
        typer.Option(
            help="Show posterior, net VOI and the oracle's choice: privileged, no policy sees them."
        ),
    ] = False,
    index: Annotated[int, typer.Option(help="Which case of the stream.")] = 0,
    seed: Annotated[
        int | None, typer.Option(help="Of the stream; another patient every time without it.")
    ] = None,
) -> None:
    """Play a case of the train split in the terminal: ask, stop, decide.

    Findings and decisions are numbered; a number, a name or the beginning of one is understood.
    At the end comes the outcome, and what the oracle would have done on the same case.
    """
    from clinical_envs.adapters.dialogues import dialogue_for
    from clinical_envs.case import CaseStream
    from clinical_envs.catalog import load_task
    from clinical_envs.simulator import Encounter
    from oracles.clinical import ClinicalWorld

    world = ClinicalWorld(load_task(task))
    case = CaseStream(world.task, "train", _fresh_seed() if seed is None else seed)[index]
    encounter = Encounter(world.task, case)
    dialogue = dialogue_for(world.task)(encounter)
    _introduce(world.task, case)
    _show_subject(dialogue)
    if hints:
        out.print("Hints are privileged: they come from the oracle.", style="yellow")
    while not encounter.over:
        if hints:
            _hint(world, encounter)
        action = _next_action(encounter)
        if action is None:
            out.print("Stopped; the case stays undecided and nothing is recorded.")
            return
        _play_turn(dialogue, action)
    _debrief(world, case, encounter)


def read_choice(task: Task, text: str) -> Ask | Commit | str:
    """What a person typed as an action, or one line that says why it is none.

    A number counts findings first, then decisions. A name may be shortened to any beginning that
    fits one name only.

    >>> from clinical_envs import load_task
    >>> read_choice(load_task("diagnostics"), "trop")
    Ask(finding=7)
    >>> read_choice(load_task("diagnostics"), "fevr")
    "nothing is called 'fevr'; did you mean 'fever'?"
    """
    from clinical_envs.errors import did_you_mean
    from clinical_envs.simulator import Ask, Commit

    actions: list[Ask | Commit] = [Ask(q) for q in range(len(task.findings))]
    actions += [Commit(a) for a in range(len(task.decisions))]
    names = (*task.finding_ids, *task.decision_ids)
    if text.isascii() and text.isdecimal():
        number = int(text[:9])
        if 1 <= number <= len(actions):
            return actions[number - 1]
        return f"no number {number}; they run from 1 to {len(actions)}"
    word = text.lower().replace(" ", "_")
    fits = [n for n, name in enumerate(names) if name == word]
    fits = fits or [n for n, name in enumerate(names) if name.startswith(word)]
    if len(fits) == 1:
        return actions[fits[0]]
    if fits:
        could = ", ".join(f"{n + 1} {names[n]}" for n in fits)
        return f"{text!r} could be {could}; type more of it, or the number"
    return f"nothing is called {text[:60]!r}; {did_you_mean(word, names)}"


def _fresh_seed() -> int:
    import numpy as np

    return int(np.random.SeedSequence().generate_state(1)[0])


def _introduce(task: Task, case: Case) -> None:
    out.print(task.title, style="bold")
    out.print(task.setting)
    out.print(task.families[case.family].text)
    _choices(task)
    out.print(
        f"A question costs {task.question_cost:g}. You have {task.turn_cap} turns; the last must "
        f"be a decision.\n{_HELP}\nThis is case {case.split}/{case.seed}/{case.index}: play it "
        f"again with --seed {case.seed} --index {case.index}."
    )


def _choices(task: Task) -> None:
    findings = [f"{n:>2} {finding.id}" for n, finding in enumerate(task.findings, start=1)]
    out.print("\nAsk:", style="bold")
    out.print(Columns(findings, column_first=True, equal=True, padding=(0, 3)))
    out.print("\nDecide:", style="bold")
    for n, decision in enumerate(task.decisions, start=len(findings) + 1):
        out.print(f"{n:>2} {decision.id}: {decision.text}")
    out.print()


def _next_action(encounter: Encounter) -> Ask | Commit | None:
    """Ask the person until an action is understood; None where they stop."""
    task, info = encounter.task, encounter.info
    charged = task.question_cost * len(encounter.actions)
    left = "last turn, decide now" if info.turns_left == 1 else f"{info.turns_left} turns left"
    while True:
        try:
            text = input(f"\n[cost {charged:.2f}, {left}] > ").strip()
        except (EOFError, KeyboardInterrupt):
            out.print()
            return None
        if not sys.stdin.isatty():
            out.print(text)
        if text.lower() in {"q", "quit", "exit"}:
            return None
        if text == "?":
            _choices(task)
        elif text:
            choice = read_choice(task, text)
            if not isinstance(choice, str):
                return choice
            out.print(choice)


def _show_subject(dialogue: Dialogue) -> None:
    """What the case is about, in a world that words its own cases: a claim, question or message."""
    if _own_words(dialogue):
        lines = dialogue.messages[0]["content"].splitlines()
        subject = [line for line in lines if line.startswith(_SUBJECTS)]
        out.print("\n" + "\n".join(subject), style="bold")


def _own_words(dialogue: Dialogue) -> bool:
    from clinical_envs.protocol import Dialogue as Findings

    return type(dialogue) is not Findings


def _play_turn(dialogue: Dialogue, action: Ask | Commit) -> None:
    from clinical_envs.simulator import Ask

    encounter = dialogue.encounter
    task, before = encounter.task, encounter.info
    transition = dialogue.play(action)
    if isinstance(action, Ask):
        if _own_words(dialogue) and not transition.terminated:
            out.print(dialogue.messages[-1]["content"])
        finding = task.findings[action.finding]
        again = "  (asked before: charged, nothing new)" * before.knows(action.finding)
        answer = "yes" if transition.answer else "no"
        out.print(f"{finding.text}: {answer}{again}", style="bold")
        seen = (f"{task.finding_ids[q]} {_yes_no(yes)}" for q, yes in encounter.info.seen())
        out.print(f"seen: {', '.join(seen)}", style="dim")


def _hint(world: ClinicalWorld, encounter: Encounter) -> None:
    from clinical_envs.belief import entropy, posterior, predictive
    from oracles.explanation import describe

    task, info = world.task, encounter.info
    belief, values = posterior(task, info), world.oracle.values(info)
    chance = predictive(task, info)
    numbers = ("P(yes)", "net VOI")
    table = make_table("ask next", *numbers, numbers=numbers)
    unseen = [q for q in task.informative[info.family] if not info.knows(q)]
    for q in sorted(unseen, key=lambda q: -values.net_voi[q])[:5]:
        table.add_row(task.finding_ids[q], f"{chance[q]:.2f}", f"{values.net_voi[q]:+.4f}")
    states = (f"{name} {p:.2f}" for name, p in zip(task.state_ids, belief, strict=True))
    out.print(f"\nhint: posterior {', '.join(states)}; entropy {entropy(belief):.2f} nats")
    out.print(table)
    commits = zip(task.decision_ids, values.commit, strict=True)
    out.print("expected utility: " + ", ".join(f"{name} {u:+.2f}" for name, u in commits))
    out.print(f"oracle: {describe(task, values.action)} (V* {values.value:+.4f})", style="cyan")


def _debrief(world: ClinicalWorld, case: Case, encounter: Encounter) -> None:
    """The outcome, each turn beside the oracle's, and the oracle's own path on the same case."""
    from oracles.evaluation import evaluate
    from oracles.explanation import describe, explain

    task, mine = world.task, encounter.episode(policy="you", rollout=0)
    state = task.states[case.state]
    out.print(f"\nThe truth: {state.text} ({state.id}, risk group {state.risk_group}).")
    out.print(_outcome(world, mine), style="bold")
    table = make_table("turn", "you", "the oracle there", "regret", numbers=("regret",))
    for n, turn in enumerate(explain(world.oracle, mine).turns, start=1):
        answer = "" if turn.answer is None else f": {_yes_no(turn.answer)}"
        action = describe(task, turn.action) + answer
        table.add_row(str(n), action, describe(task, turn.best), f"{turn.regret:.3f}")
    out.print(table)
    (best,) = evaluate(world, world.policy("oracle"), [case], k=1)
    path = (
        describe(task, turn.action) + ("" if turn.answer is None else f" ({_yes_no(turn.answer)})")
        for turn in explain(world.oracle, best).turns
    )
    out.print(f"The oracle on the same case: {', '.join(path)}.")
    out.print(_outcome(world, best))


def _outcome(world: ClinicalWorld, episode: Episode) -> str:
    """Decision, utility, price and reward on one line."""
    judged = world.assess(episode)
    charged = judged.asks + judged.invalid_turns
    cost = world.task.question_cost * charged
    decision = judged.decision or "no decision (out of turns)"
    return (
        f"{decision}: utility {judged.reward + cost:+.2f} - {charged} questions {cost:.2f} "
        f"= reward {judged.reward:+.2f}"
    )


def _yes_no(present: bool) -> str:
    return "yes" if present else "no"
