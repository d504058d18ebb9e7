"""`clinical-envs factcheck`: check a claim, or a file of claims, against the literature."""

from __future__ import annotations

from contextlib import closing
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer
from rich.text import Text

from training.cli.arguments import JsonOption
from training.cli.factcheck_scores import check_all
from training.cli.terminal import err, make_table, out, print_json, progress, writable

if TYPE_CHECKING:
    from rich.table import Table

    from clinical_envs.factcheck.claims import Claim
    from clinical_envs.factcheck.ncbi import NcbiSearch
    from clinical_envs.factcheck.search import LocalSearch
    from training.agents.checked import Checked
    from training.agents.pages import Setting
    from training.endpoint import Endpoint

_TIMEOUT_S = 300.0  # the report of a reasoning model takes minutes on a small server
_CACHE = Path("ncbi-cache.sqlite")


def factcheck(
    policy: Annotated[
        str,
        typer.Option(
            help="The model, behind an OpenAI-compatible chat endpoint, as openai:URL#MODEL; its "
            "key, if it needs one, in OPENAI_API_KEY."
        ),
    ],
    claim: Annotated[str | None, typer.Argument(metavar="CLAIM", help="One sentence.")] = None,
    claims: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="Instead of CLAIM: JSON Lines of claims, SciFact, HealthFC, PubMedQA's "
            "ori_pqal.json, or `examples`.",
        ),
    ] = None,
    binary: Annotated[
        bool,
        typer.Option("--binary", help="Only claims labelled SUPPORTED or REFUTED, as published."),
    ] = False,
    method: Annotated[
        str, typer.Option(help="biocheck, pmsearch, fire, cer or no-retrieval.")
    ] = "biocheck",
    backend: Annotated[
        Literal["local", "ncbi"], typer.Option(help="A corpus on this machine, or PubMed itself.")
    ] = "local",
    corpus: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="Of the local backend: JSON Lines of articles, SciFact's corpus.jsonl, PubMedQA's "
            "ori_pqal.json, an .sqlite index, or `examples`.",
        ),
    ] = None,
    cache: Annotated[
        Path, typer.Option(metavar="FILE", help="Where answers of NCBI are kept and found again.")
    ] = _CACHE,
    offline: Annotated[
        bool, typer.Option("--offline", help="Replay the answers of NCBI from the cache alone.")
    ] = False,
    engine: Annotated[
        Literal["plain", "langgraph"],
        typer.Option(help="What runs the agents biocheck and pmsearch; the results are equal."),
    ] = "plain",
    max_tokens: Annotated[
        int | None, typer.Option(min=1, help="Of one reply; 4096 unless said.")
    ] = None,
    out_folder: Annotated[
        Path | None,
        typer.Option(
            "--out",
            metavar="FOLDER",
            help="Of the report, by default factcheck/ and words of the claim; or of the checked "
            "claims, which are continued.",
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Check a biomedical claim against the literature, and every citation against its source.

    A CLAIM gives report.md, report.json and report.html. With --claims and --out, a file is checked
    claim by claim into claims.jsonl, and the method is scored. A run that was stopped goes on when
    it is started again, and tries again what an outage left unscored.
    """
    from clinical_envs.errors import InvalidArgument
    from training.agents.desk import MAX_TOKENS, Desk, Say, quiet
    from training.agents.methods import METHODS, find_run
    from training.agents.pages import Setting
    from training.agents.reply import encodable

    run = find_run(method, engine)
    if (claim is None) == (claims is None):
        raise InvalidArgument("give one CLAIM, or --claims FILE")
    if claim is not None and not claim.strip():
        raise InvalidArgument("the claim is empty; give one sentence")
    if binary and claims is None:
        raise InvalidArgument("--binary is for --claims FILE")
    if claims is not None and out_folder is None:
        raise InvalidArgument("--claims needs --out FOLDER, where a stopped run is continued")
    source = _source(backend, corpus, offline)
    setting = Setting(
        method=method,
        policy=policy,
        backend=source,
        max_tokens=max_tokens or MAX_TOKENS,
        cites=METHODS[method].cites,
    )
    wanted = [] if claims is None else _claims(claims, binary)
    with closing(_literature(source, cache, offline)) as literature, _endpoint(policy) as model:

        def check(text: str, say: Say = quiet) -> Checked:
            desk = Desk(model, literature, max_tokens=setting.max_tokens, say=say)
            return run(text, desk)

        if claim is not None:
            folder = out_folder or Path("factcheck") / _slug(claim, method)
            writable(folder / "report.md")  # before anything is paid for
            _tell(check(encodable(claim), _say), setting, folder, as_json)
        elif out_folder is not None:
            check_all(wanted, setting, check, out_folder, as_json)
        used = model.usage
        if not as_json:
            out.print(
                f"endpoint: {used.requests} requests in this run, {used.retries} attempts "
                f"repeated; {used.prompt_tokens} prompt and {used.completion_tokens} completion "
                "tokens, of the replies that count them"
            )


def _source(backend: str, corpus: str | None, offline: bool) -> str:
    """The literature by name, as records name it."""
    from clinical_envs.errors import InvalidArgument

    if backend == "ncbi":
        if corpus is not None:
            raise InvalidArgument("--corpus is for --backend local; leave one of them out")
        return "ncbi"
    if offline:
        raise InvalidArgument("--offline is for --backend ncbi; a corpus is always offline")
    if corpus is None:
        raise InvalidArgument("--backend local needs --corpus FILE; or give --backend ncbi")
    return corpus


def _claims(claims: str, binary: bool) -> list[Claim]:
    from clinical_envs.errors import InvalidArgument
    from clinical_envs.factcheck.metrics import CLASSES
    from training.agents.literature import open_claims

    known = open_claims(claims)
    wanted = [claim for claim in known if not binary or claim.label in CLASSES]
    if not wanted:
        labels = f"of {len(known)} claims none is labelled {' or '.join(CLASSES)}" if known else ""
        raise InvalidArgument(f"{claims}: {labels or 'no claims'}; there is nothing to check")
    return wanted


def _literature(source: str, cache: Path, offline: bool) -> LocalSearch | NcbiSearch:
    from clinical_envs.factcheck.ncbi import NcbiSearch
    from training.agents.literature import open_corpus

    if source == "ncbi":
        return NcbiSearch(cache, offline=offline, say=_say)
    with progress(f"indexing {source}"):
        return open_corpus(source)


def _endpoint(policy: str) -> Endpoint:
    from training.endpoint import Endpoint

    with progress(f"asking {policy}"):
        return Endpoint(policy, timeout_s=_TIMEOUT_S, say=_say)


def _slug(claim: str, method: str) -> str:
    """A folder name: the first words of a claim, and a hash of all of it and of the method."""
    from clinical_envs.factcheck.rouge import words

    digest = sha256(f"{method} {claim}".encode("utf-8", "surrogatepass")).hexdigest()[:8]
    return "-".join([*words(claim)[:10], digest])[-80:]


def _say(line: str) -> None:
    err.print(line, soft_wrap=True)


def _tell(checked: Checked, setting: Setting, folder: Path, as_json: bool) -> None:
    """Write the pages of one claim, and say what they hold."""
    from training.agents.pages import NO_VERDICT, facts, write_pages
    from training.agents.pages import as_json as content

    paths = write_pages(checked, setting, folder, linked=setting.backend == "ncbi")
    if as_json:
        print_json(content(checked, setting))
        return
    out.print(Text(checked.report.verdict or NO_VERDICT, style="bold"))
    for name, value in facts(checked, setting).items():
        out.print(f"{name}: {value}", soft_wrap=True)
    if checked.citations:
        out.print(_citations(checked))
    out.print(f"report: {', '.join(map(str, paths))}", soft_wrap=True)


def _citations(checked: Checked) -> Table:
    from training.agents.pages import told

    table = make_table("side", "PMID", "the source says", "quote")
    for c in checked.citations:
        style = "bold red" if c.hallucination else "yellow" if c.distorted else "green"
        verdict = Text("; ".join(told(c)) or "verbatim", style=style)
        table.add_row(c.side.lower(), c.evidence.pmid, verdict, c.evidence.quote)
    return table
