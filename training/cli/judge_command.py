"""`clinical-envs judge`: language models as judges and checkers of recorded answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from training.cli.arguments import JsonOption
from training.cli.judge_session import (
    number,
    open_judges,
    read_prices,
    say_end,
    spent_rows,
    write_lines,
)
from training.cli.terminal import make_table, out, print_json, progress

if TYPE_CHECKING:
    from rich.table import Table

    from clinical_envs.checkedqa.checkers import Checker
    from oracles.reward_audit.checker_signal import Signal
    from training.agents.evidence_scorer import OptionModel
    from training.judges.asking import Judge
    from training.judges.checkers import LikelihoodChecker
    from training.judges.panel import AgreementTable

app = typer.Typer(
    no_args_is_help=True,
    help="Let language models judge recorded answers. Replies of endpoints are kept beside the "
    "output: a run that was stopped goes on, and asks only for what is missing, when it is started "
    "again.",
)

_ENDPOINT = "openai:URL#MODEL"
FileArgument = Annotated[Path, typer.Argument(metavar="FILE", help="JSON Lines, as shown above.")]
PanelOption = Annotated[
    list[str], typer.Option("--judge", metavar=_ENDPOINT, help="A judge; repeat it for a panel.")
]
OutOption = Annotated[
    Path, typer.Option("--out", metavar="FILE", help="Verdicts as JSON Lines; replaced.")
]
CacheOption = Annotated[
    Path | None,
    typer.Option("--cache", metavar="FILE", help="Of replies; by default OUT.replies.sqlite."),
]
WorkersOption = Annotated[int, typer.Option(min=1, help="Questions asked at the same time.")]
MaxTokensOption = Annotated[
    int, typer.Option("--max-tokens", min=1, help="Of a reply, reasoning included.")
]
PriceOption = Annotated[
    list[str] | None,
    typer.Option(
        "--price",
        metavar="MODEL=IN,OUT",
        help="Price of a million prompt and completion tokens, to show what a run costs.",
    ),
]


@app.command()
def rubric(
    file: FileArgument,
    judge: PanelOption,
    out_file: OutOption,
    verifier: Annotated[
        str | None,
        typer.Option(metavar=_ENDPOINT, help="The training verifier that the panel checks."),
    ] = None,
    cache: CacheOption = None,
    max_tokens: MaxTokensOption = 2048,
    workers: WorkersOption = 8,
    price: PriceOption = None,
    as_json: JsonOption = False,
) -> None:
    """Grade answers criterion by criterion and write what `reward-audit` reads.

    One answer a line, one a prompt and step: {"prompt": "p1", "step": 0, "question": "...",
    "answer": "...", "rubric": [{"criterion": "Names the dose", "weight": 2}]}. Without --verifier
    the training verdicts are those of the line: a list of true and false under "training".
    """
    from oracles.reward_audit.records import JudgmentRow
    from training.judges.files import Answer, read_lines
    from training.judges.panel import agreement_table
    from training.judges.rubric import judge_answers

    answers = read_lines(file, Answer)
    specs = [*judge, *([verifier] if verifier else [])]
    prices = read_prices(price, specs)
    with open_judges(specs, file, out_file, cache, max_tokens) as judges:
        panel = judges[: len(judge)]
        trained = judges[-1] if verifier else None
        with progress(f"{len(judges)} judges, {len(answers)} answers") as tell:
            rows = judge_answers(answers, panel, trained, workers=workers, tell=tell)
    write_lines(out_file, (row.model_dump_json() for row in rows))
    judgments = [row for row in rows if isinstance(row, JudgmentRow)]
    table = agreement_table(judgments, [one.name for one in panel])
    if as_json:
        print_json({"agreement": asdict(table), "judges": spent_rows(judges, prices)})
        return
    if table.comparisons:
        out.print(_agreement(table))
    if table.fleiss is not None:
        out.print(f"Fleiss' kappa {table.fleiss:.3f} on {table.complete} criteria judged by all")
    say_end(judges, prices, out_file, audit=True)


@app.command()
def pairs(
    file: FileArgument,
    judge: PanelOption,
    out_file: OutOption,
    cache: CacheOption = None,
    max_tokens: MaxTokensOption = 2048,
    workers: WorkersOption = 8,
    price: PriceOption = None,
    as_json: JsonOption = False,
) -> None:
    """Rate two answers without a rubric, in both orders, and show how far place matters.

    One pair a line: {"prompt": "p1", "question": "...", "left": "...", "right": "..."}.
    """
    from training.judges.files import Pair, read_lines
    from training.judges.pairs import judge_pairs, mean_ratings, pair_row, tallies

    given = read_lines(file, Pair)
    prices = read_prices(price, judge)
    with (
        open_judges(judge, file, out_file, cache, max_tokens) as panel,
        progress(f"{len(panel)} judges, {len(given)} pairs, both orders") as tell,
    ):
        judged = judge_pairs(given, panel, workers=workers, tell=tell)
    write_lines(out_file, (pair_row(one) for one in judged))
    rows, means = tallies(judged), mean_ratings(judged)
    if as_json:
        ratings = {name: {"left": a.mean, "right": b.mean} for name, (a, b) in means.items()}
        tally = [asdict(row) for row in rows]
        print_json({"pairs": tally, "ratings": ratings, "judges": spent_rows(panel, prices)})
        return
    numbers = ("left", "tie", "right", "unscored", "position bias")
    table = make_table("prefers", *numbers, numbers=numbers)
    for row in rows:
        bias = "" if row.bias is None else number(row.bias.mean, "+.2f")
        counts = (row.left, row.tie, row.right, row.unscored)
        table.add_row(row.judge, *map(str, counts), bias)
    out.print(table)
    table = make_table("mean rating", "left", "right", numbers=("left", "right"))
    for dimension, (left, right) in means.items():
        table.add_row(dimension, number(left.mean, ".2f"), number(right.mean, ".2f"))
    out.print(table)
    say_end(panel, prices, out_file)


@app.command()
def claims(
    file: FileArgument,
    out_file: OutOption,
    judge: Annotated[
        str | None, typer.Option(metavar=_ENDPOINT, help="A chat model that decides.")
    ] = None,
    likelihood: Annotated[
        str | None,
        typer.Option(
            metavar="MODEL",
            help="A model whose next-token probabilities decide: openai:URL#MODEL or hf:FOLDER. "
            "With --judge too, the judge splits the claims (hybrid).",
        ),
    ] = None,
    cache: CacheOption = None,
    max_tokens: MaxTokensOption = 2048,
    workers: WorkersOption = 8,
    price: PriceOption = None,
    as_json: JsonOption = False,
) -> None:
    """Check the claims of answers against their passages and write what `reward-audit` reads.

    One answer a line: {"prompt": "p1", "rollout": 0, "answer": "...", "passages": ["..."]}; also
    "step", "policy", "question", "claims" with their "truth", and "base", the reward that the
    checker's multiplier multiplies.
    """
    from oracles.reward_audit.checker_signal import signal
    from oracles.reward_audit.records import CheckRow
    from training.judges.claims import check_answers
    from training.judges.files import Cited, read_lines

    if judge is None and likelihood is None:
        raise typer.BadParameter("give --judge, --likelihood, or both")
    answers = read_lines(file, Cited)
    named = dict.fromkeys(one for one in (judge, likelihood) if one)
    specs = [one for one in named if one == judge or not one.startswith("hf:")]
    prices = read_prices(price, specs)
    with open_judges(specs, file, out_file, cache, max_tokens) as judges:
        checker, by_likelihood = _checker(judges, judge, likelihood)
        with progress(f"{checker.name}, {len(answers)} answers") as tell:
            rows = check_answers(answers, checker, workers=workers, tell=tell)
    write_lines(out_file, (row.model_dump_json() for row in rows))
    found = signal([row for row in rows if isinstance(row, CheckRow)])
    mass = by_likelihood.mean_mass if by_likelihood else None
    if as_json:
        verdicts = None if found is None else asdict(found)
        spent = spent_rows(judges, prices)
        print_json({"checker": checker.name, "verdicts": verdicts, "mass": mass, "models": spent})
        return
    _print_verdicts(found, mass)
    say_end(judges, prices, out_file, audit=True)


def _print_verdicts(found: Signal | None, mass: float | None) -> None:
    if found is None:
        out.print("no claim has a verdict")
    else:
        shares = ("support", "neutral", "contradict")
        table = make_table("band", *shares, "claims", "missing", numbers=(*shares, "claims"))
        cells = [f"{getattr(found, share):.3f}" for share in shares]
        table.add_row(found.band, *cells, str(found.scored), str(found.unscored))
        out.print(table)
    if mass is not None:
        out.print(f"the model gives the options {100 * mass:.1f} % of its probability")


def _checker(
    judges: Sequence[Judge], judge: str | None, likelihood: str | None
) -> tuple[Checker, LikelihoodChecker | None]:
    from training.judges.checkers import HybridChecker, JudgeChecker, LikelihoodChecker

    by_name = {one.name: one for one in judges}
    if likelihood is None:
        return JudgeChecker(by_name[str(judge)]), None
    model: OptionModel = by_name.get(likelihood) or _local(likelihood)
    checker = LikelihoodChecker(model, likelihood)
    return (checker if judge is None else HybridChecker(by_name[judge], checker)), checker


def _local(spec: str) -> OptionModel:
    from clinical_envs.errors import require

    for module in ("torch", "transformers"):
        require(module, "train")
    from training.judges.options import load_options

    with progress(f"loading {spec}"):
        return load_options(spec)


def _agreement(table: AgreementTable) -> Table:
    numbers = ("agreement", "false +", "false -", "kappa", "n", "missing")
    printed = make_table("judge", "against", *numbers, numbers=numbers)
    for one in table.comparisons:
        found = one.agreement
        shares = (found.agreement, found.false_positive, found.false_negative, one.kappa)
        cells = (number(share, ".3f") for share in shares)
        printed.add_row(one.judge, one.against, *cells, str(found.scored), str(found.unscored))
    return printed
