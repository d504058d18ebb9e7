"""Local search on PubMedQA, where it is present, and searches of the text environment."""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Iterator
from pathlib import Path

import gymnasium as gym

from clinical_envs.adapters.text import ClinicalTextEnv
from clinical_envs.factcheck.corpus import read_pubmedqa
from clinical_envs.factcheck.search import LocalSearch, SearchResult
from clinical_envs.simulator import Ask
from tests.benchmarks.record import Figure, at_least, at_most

CASES, BODIES = 60, 5
RECALL, MILLISECONDS, SEARCHES = 0.98, 8, 120


def figures() -> Iterator[Figure]:
    yield from _pubmedqa()
    rate = _searches_per_second()
    detail = f"{CASES} cases of {BODIES} searches through ClinicalFactCheckText-v0, CPU time"
    yield at_least("factcheck_searches_per_s", rate, "1/s", SEARCHES, detail)


def _pubmedqa() -> Iterator[Figure]:
    folder = Path(os.environ.get("CLINICAL_ENVS_DATA", "../shared/data")) / "pubmedqa"
    path = folder / "ori_pqal.json"
    if not path.is_file():
        reason = "skipped: set CLINICAL_ENVS_DATA to a folder with pubmedqa/ori_pqal.json"
        yield Figure("search_recall_at_5", float("nan"), "share", reason, f">= {RECALL}")
        yield Figure("search_ms", float("nan"), "ms", reason, f"<= {MILLISECONDS}")
        return
    corpus, claims = read_pubmedqa(path)
    index = LocalSearch.build(corpus)
    start = time.process_time()
    results = [index.search(claim.text, limit=5, match="any") for claim in claims]
    took = time.process_time() - start
    index.close()
    hits = sum(
        isinstance(result, SearchResult) and claim.pmids[0] in result.pmids
        for claim, result in zip(claims, results, strict=True)
    )
    detail = f"{len(corpus):,} PubMedQA abstracts, question as query"
    yield at_least("search_recall_at_5", hits / len(claims), "share", RECALL, detail)
    yield at_most("search_ms", 1e3 * took / len(claims), "ms", MILLISECONDS, f"{detail}, CPU time")


def _searches_per_second() -> float:
    """Searches over seconds of everything a search needs: resets, indexing, abstracts."""
    env = gym.make("ClinicalFactCheckText-v0").unwrapped
    assert isinstance(env, ClinicalTextEnv)
    start = time.process_time()
    for index, body in itertools.product(range(CASES), range(BODIES)):
        if body == 0:
            env.reset(seed=2_024, options={"index": index})
        observation, *_, info = env.step(env._dialogue.write(Ask(body)))
        if "invalid" in info or "RESULTS" not in observation:
            raise RuntimeError(f"case {index}: a canonical query retrieved nothing: {info}")
    return CASES * BODIES / (time.process_time() - start)
