"""A run of judges: their connections and cache, what they cost, and how it ends."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from training.cli.terminal import err, make_table, out, writable

if TYPE_CHECKING:
    from training.judges.asking import Judge

_TIMEOUT_S = 120.0  # a small server works on the questions of all workers by turns

Prices = Mapping[str, tuple[float, float]]
"""Of a million prompt and completion tokens, by model."""


@contextmanager
def open_judges(
    specs: Sequence[str], file: Path, out_file: Path, cache: Path | None, max_tokens: int
) -> Iterator[list[Judge]]:
    """The judges with their connections and the cache, until the block ends or is interrupted.

    Raises:
        InvalidArgument: a judge is named twice, a file cannot be written, or would be written
            over the one that is judged.
        EndpointError: an endpoint is not there, or gave no reply to anything.
    """
    from clinical_envs.errors import InvalidArgument
    from training.endpoint import Endpoint, EndpointError
    from training.judges.asking import Judge
    from training.judges.cache import ReplyCache

    if len(set(specs)) < len(specs):
        raise InvalidArgument("a judge is named twice; it has one vote, name each model once")
    writable(out_file, file)
    kept = writable(cache or out_file.with_name(f"{out_file.name}.replies.sqlite"), file, out_file)
    replies = ReplyCache(kept)
    say = partial(err.print, soft_wrap=True)
    try:
        with ExitStack() as stack:
            endpoints = [
                stack.enter_context(Endpoint(spec, timeout_s=_TIMEOUT_S, say=say)) for spec in specs
            ]
            judges = [
                Judge(endpoint, endpoint.name, replies, max_tokens=max_tokens)
                for endpoint in endpoints
            ]
            yield judges
            for one in judges:
                if one.trouble and not one.spent.requests and not one.spent.cached:
                    raise EndpointError(one.trouble)  # not one reply: nothing was judged
    except KeyboardInterrupt:
        say(f"stopped: {kept} keeps the replies; run the same command to go on")
        raise typer.Exit(130) from None


def read_prices(given: Sequence[str] | None, specs: Sequence[str]) -> Prices:
    """Prices as they were typed, for the models of these specifications."""
    prices = {}
    models = [spec.partition("#")[2] for spec in specs]
    for text in given or ():
        model, _, pair = text.rpartition("=")
        try:
            prompt, completion = map(float, pair.split(","))
        except ValueError:
            raise typer.BadParameter(
                f"{text!r} is no price; write --price MODEL=IN,OUT, such as gpt=0.15,0.6"
            ) from None
        if model not in models:
            raise typer.BadParameter(f"no judge is named {model!r}; known: {', '.join(models)}")
        prices[model] = (prompt, completion)
    return prices


def spent_rows(judges: Sequence[Judge], prices: Prices) -> list[dict[str, Any]]:
    """What each judge was asked and what that cost; None where that is not known."""
    rows = []
    for one in judges:
        price = prices.get(one.name.partition("#")[2])
        cost = None if price is None or one.spent.uncounted else one.spent.cost(*price)
        rows.append({"judge": one.name, **asdict(one.spent), "cost": cost})
    return rows


def write_lines(path: Path, lines: Iterable[str]) -> None:
    """Write a file of lines in the place of an earlier one."""
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def say_end(
    judges: Sequence[Judge],
    prices: Prices,
    out_file: Path,
    *,
    audit: bool = False,
) -> None:
    """What it took, what is missing, and where the verdicts are."""
    numbers = ("questions", "from cache", "requests", "tokens in", "tokens out", "missing", "cost")
    table = make_table("model", *numbers, numbers=numbers)
    for one, row in zip(judges, spent_rows(judges, prices), strict=True):
        spent = one.spent
        counts = (spent.questions, spent.cached, spent.requests)
        tokens = (spent.prompt_tokens, spent.completion_tokens)
        told = ("-", "-") if spent.uncounted else map(str, tokens)  # some replies told no number
        missing = str(spent.failed + spent.unread)
        table.add_row(one.name, *map(str, counts), *told, missing, number(row["cost"], ".4f"))
    if judges:
        out.print(table)
    for one in judges:
        if one.trouble:
            err.print(f"{one.name}: {one.trouble}", soft_wrap=True)
    if any(one.spent.failed + one.spent.unread for one in judges):
        out.print("missing verdicts stay missing, not false; run the same command to ask again")
    out.print(f"verdicts: {out_file}", soft_wrap=True)
    if audit:
        out.print(f"audit: clinical-envs reward-audit {out_file}", soft_wrap=True)


def number(value: float | None, form: str) -> str:
    """A formatted number, or a dash where there is none."""
    return "-" if value is None else format(value, form)
