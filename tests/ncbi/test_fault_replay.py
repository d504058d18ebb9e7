"""Every failure, replayed: no false "no hits", no lost cached result, no key that shows."""

from __future__ import annotations

import logging
import traceback
from collections import deque
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from urllib.parse import quote_plus

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from clinical_envs.factcheck.corpus import Article
from clinical_envs.factcheck.ncbi import NcbiSearch
from clinical_envs.factcheck.ncbi_cache import NcbiCache
from clinical_envs.factcheck.ncbi_error import SearchUnavailable
from clinical_envs.factcheck.query_error import QueryError
from clinical_envs.factcheck.search import SearchResult
from tests.ncbi.server import (
    ARTICLES,
    COUNT,
    PMIDS,
    TRANSLATION,
    EutilsServer,
    Failure,
    SkippingClock,
)

KEY = "k3y+with/signs=0123456789abcdef"
QUERY = "aspirin AND stroke"
TRUTH = SearchResult(count=COUNT, pmids=PMIDS, query_translation=TRANSLATION, warnings=())
TIMEOUT_S = 0.1
_SLOW = {Failure.SLOW, Failure.TRICKLE}


@dataclass
class Tally:
    """What went wrong over a whole replay, and that there was something that could."""

    false_no_hits: int = 0
    lost_results: int = 0
    key_seen: int = 0
    answers: int = 0
    outages: int = 0
    reported_missing: int = 0
    raised: list[BaseException] = field(default_factory=list)


def check_search(found: SearchResult | QueryError, tally: Tally) -> None:
    tally.answers += 1
    tally.false_no_hits += found != TRUTH


def check_fetch(found: dict[str, Article], said: Sequence[str], tally: Tally) -> None:
    """Every article is the true one, or NCBI left it out twice and that was said."""
    reported = {pmid for line in said if "no record" in line for pmid in PMIDS if pmid in line}
    tally.answers += 1
    tally.reported_missing += len(reported)
    for pmid, article in ARTICLES.items():
        tally.false_no_hits += found.get(pmid) != article and pmid not in reported


def replay(
    server: EutilsServer, path: Path, failures: Sequence[Failure], forever: bool, warm: bool
) -> Tally:
    """A search and a fetch while this goes wrong, on an empty cache or refreshing a full one."""
    tally, said = Tally(), list[str]()
    if warm:
        with closing(NcbiCache(path)) as cache:
            cache.keep_search(QUERY, 5, TRUTH)
            cache.keep_articles(ARTICLES, ())
    with NcbiSearch(
        path,
        refresh=warm,
        say=said.append,
        base_url=server.url,
        clock=SkippingClock(),
        # the slow leave room for a true answer that a busy machine delays; the clock skips the rest
        patience_s=200.0 if _SLOW & {*failures} else 40.0,
        timeout_s=TIMEOUT_S if _SLOW & {*failures} else 5.0,
    ) as backend:
        for check in (
            lambda: check_search(backend.search(QUERY), tally),
            lambda: check_fetch(backend.fetch(PMIDS), said, tally),
        ):
            server.failures = deque(failures)
            server.forever = failures[0] if forever else None
            try:
                check()
            except SearchUnavailable as error:
                tally.outages += 1
                tally.raised.append(error)
    check_kept(path, tally, warm)
    for line in said:
        print(line)
    return tally


def check_kept(path: Path, tally: Tally, warm: bool) -> None:
    """Offline there is what was answered: after a warm start everything, else the truth or none."""
    with NcbiSearch(path, offline=True) as offline:
        try:
            tally.lost_results += offline.search(QUERY) != TRUTH
        except SearchUnavailable:
            tally.lost_results += warm
        for pmid, article in ARTICLES.items():
            try:
                kept = offline.fetch([pmid])
            except SearchUnavailable:
                kept = {}
            tally.lost_results += kept.get(pmid, None if not warm else ...) not in (None, article)


def shown(error: BaseException | None) -> str:
    """Everything that an exception shows, with whatever it drags along."""
    if error is None:
        return ""
    told = "".join(traceback.format_exception(error)) + repr(error) + repr(error.args)
    return told + shown(error.__cause__) + shown(error.__context__)


def times_key(text: str) -> int:
    return sum(text.count(form) for form in {KEY, quote_plus(KEY)})


def test_replay_of_every_failure_counts_nothing_wrong(
    server: EutilsServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("NCBI_API_KEY", KEY)
    caplog.set_level(logging.DEBUG)
    total = Tally()
    runs = list(product(Failure, (False, True), (False, True)))
    for number, (failure, forever, warm) in enumerate(runs):
        tally = replay(server, tmp_path / str(number), [failure] * 5, forever, warm)
        total.false_no_hits += tally.false_no_hits
        total.lost_results += tally.lost_results
        total.answers += tally.answers
        total.outages += tally.outages
        total.reported_missing += tally.reported_missing
        total.key_seen += sum(times_key(shown(error)) for error in tally.raised)
    out, err = capfd.readouterr()
    total.key_seen += times_key(out) + times_key(err) + times_key(caplog.text)
    total.key_seen += sum(times_key(repr(vars(record))) for record in caplog.records)
    for path in tmp_path.iterdir():
        total.key_seen += times_key(path.read_bytes().decode("latin-1"))

    assert (total.false_no_hits, total.lost_results, total.key_seen) == (0, 0, 0)
    # and the replay had what it takes to go wrong
    assert total.answers + total.outages == 2 * len(runs)
    assert total.outages == 2 * 2 * (len(Failure) - 1)  # forever, but for records left out
    assert total.reported_missing == 4 * len(PMIDS)
    assert all(form["api_key"] == KEY for _, form in server.requests)
    assert "[key]" in out
    assert "HTTP Request: POST" in caplog.text


@given(st.lists(st.sampled_from([f for f in Failure if f not in _SLOW]), max_size=8), st.booleans())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=25)
def test_any_sequence_of_failures_ends_in_the_truth_or_in_an_exception(
    server: EutilsServer,
    tmp_path_factory: pytest.TempPathFactory,
    failures: list[Failure],
    warm: bool,
) -> None:
    path = tmp_path_factory.mktemp("replay") / "c"
    tally = replay(server, path, failures, forever=False, warm=warm)
    assert (tally.false_no_hits, tally.lost_results) == (0, 0)
    assert tally.answers + tally.outages == 2
