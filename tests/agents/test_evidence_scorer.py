"""Scores by option log-probabilities, held against a brute-force softmax and a fake endpoint."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clinical_envs.errors import InvalidArgument
from clinical_envs.factcheck.corpus import Article
from clinical_envs.factcheck.report import Evidence, Report
from clinical_envs.factcheck.rewards import judge_report
from clinical_envs.factcheck.verdict import Verdict
from training.agents.evidence_scorer import (
    LETTERS,
    CausalOptions,
    EndpointOptions,
    OptionScorer,
    OptionScores,
    UnknownScore,
    scorer_prompt,
)
from training.endpoint import Completion

torch = pytest.importorskip("torch", reason="the extra `train` is not installed")

CLAIM = "Pelorinib reduces attacks."
TEXT = "Pelorinib did not reduce weekly attacks."
WORDS = {
    Verdict.SUPPORTED: "supports the claim",
    Verdict.REFUTED: "refutes it",
    Verdict.NOT_ENOUGH_INFO: "is neutral",
}


@pytest.fixture(scope="module")
def policy() -> tuple[Any, Any]:
    """The embedded policy with random weights, sharp enough that masses differ from uniform."""
    from training.embedded import EmbeddedSize, build_model, build_tokenizer

    size = EmbeddedSize(initializer_range=0.2)
    tokenizer = build_tokenizer(size)
    return build_model(tokenizer, 3, size), tokenizer


def brute_force(policy: tuple[Any, Any], prompt: str, option: str) -> float:
    """P(option | prompt): one forward pass a token over the whole text, softmax by hand."""
    model, tokenizer = policy
    rendered = tokenizer.apply_chat_template(
        [{"role": "user", "content": prompt}], tokenize=False, add_generation_prompt=True
    )
    ids = tokenizer(rendered, add_special_tokens=False)["input_ids"]
    probability = 1.0
    for token in tokenizer(option, add_special_tokens=False)["input_ids"]:
        with torch.no_grad():
            logits = model(input_ids=torch.tensor([ids])).logits[0, -1].double()
        weights = [math.exp(x - float(logits.max())) for x in logits.tolist()]
        probability *= weights[token] / sum(weights)
        ids = [*ids, token]
    return probability


@pytest.mark.parametrize("options", [LETTERS, WORDS], ids=["letters", "words"])
def test_the_local_model_gives_the_probabilities_of_a_brute_force_softmax(
    policy: tuple[Any, Any], options: dict[Verdict, str]
) -> None:
    scorer = OptionScorer(CausalOptions(*policy), options)
    scores = scorer.option_scores(CLAIM, TEXT)
    prompt = scorer_prompt(CLAIM, TEXT, options)
    expected = {verdict: brute_force(policy, prompt, option) for verdict, option in options.items()}
    assert dict(scores.probabilities) == pytest.approx(expected, rel=1e-4, abs=0.0)
    assert scores.known
    assert 0.0 < scores.mass < 1.0


def test_options_of_several_tokens_are_several_tokens(policy: tuple[Any, Any]) -> None:
    _, tokenizer = policy
    assert all(len(tokenizer(option)["input_ids"]) > 1 for option in WORDS.values())


def test_the_probabilities_of_every_first_token_sum_to_one(policy: tuple[Any, Any]) -> None:
    model, tokenizer = policy
    options = CausalOptions(model, tokenizer)
    rows = options._logprobs(options.tokens.prompt("gout"), ())
    assert rows.shape == (1, len(tokenizer))
    assert float(rows.exp().sum()) == pytest.approx(1.0)


@pytest.mark.parametrize("bad", ["", "refutes it, and"])
def test_options_whose_masses_overlap_are_refused(policy: tuple[Any, Any], bad: str) -> None:
    options = WORDS | {Verdict.NOT_ENOUGH_INFO: bad}
    with pytest.raises(InvalidArgument, match="is empty or begins option"):
        CausalOptions(*policy).option_scores("gout", options)


@given(st.lists(st.floats(0.0, 0.33), min_size=3, max_size=3).filter(lambda p: sum(p) > 1e-9))
def test_normalised_scores_sum_to_one_and_keep_their_order(values: list[float]) -> None:
    scores = OptionScores(probabilities=dict(zip(Verdict, values, strict=True)))
    normalised = [scores.score(verdict, normalised=True) for verdict in Verdict]
    assert sum(normalised) == pytest.approx(1.0)
    assert scores.mass == pytest.approx(sum(values))
    for verdict, value in zip(Verdict, values, strict=True):
        assert scores.score(verdict) == value
        assert scores.score(verdict, normalised=True) == pytest.approx(value / sum(values))


class ListingModel:
    """An endpoint whose first token has these most likely alternatives."""

    def __init__(self, listed: dict[str, float] | None) -> None:
        self.listed = listed
        self.asked: dict[str, Any] = {}

    def chat(self, messages: Any, **asked: Any) -> Completion:
        self.asked = {"messages": messages, **asked}
        tops = None
        if self.listed is not None:
            tops = (tuple((token, math.log(p)) for token, p in self.listed.items()),)
        return Completion(text="A", finish_reason="length", top_logprobs=tops)


def test_an_endpoint_is_asked_for_one_token_and_its_spellings_are_added() -> None:
    model = ListingModel({"A": 0.5, " A": 0.2, "B": 0.1, "C\n": 0.05, "An": 0.04, "a": 0.03})
    scores = OptionScorer(EndpointOptions(model)).option_scores(CLAIM, TEXT)
    values = [scores.probabilities[verdict] for verdict in Verdict]
    assert values == pytest.approx([0.7, 0.1, 0.05])
    assert scores.mass == pytest.approx(0.85)
    assert scores.unlisted == 0.0
    assert (model.asked["max_tokens"], model.asked["top_logprobs"]) == (1, 20)
    assert TEXT in model.asked["messages"][0]["content"]


def test_an_option_that_is_not_listed_is_unknown_and_never_zero() -> None:
    scorer = OptionScorer(EndpointOptions(ListingModel({"A": 0.9, "The": 0.01})))
    scores = scorer.option_scores(CLAIM, TEXT)
    assert scores.probabilities[Verdict.REFUTED] is None
    assert scores.unlisted == pytest.approx(0.01)
    assert not scores.known
    assert scores.score(Verdict.SUPPORTED) == pytest.approx(0.9)
    with pytest.raises(UnknownScore, match="no token of REFUTED, NOT ENOUGH INFORMATION"):
        scores.score(Verdict.REFUTED)
    with pytest.raises(UnknownScore):
        scores.score(Verdict.SUPPORTED, normalised=True)


@pytest.mark.parametrize("listed", [None, {}])
def test_an_endpoint_without_log_probabilities_leaves_the_text_unscored(
    listed: dict[str, float] | None,
) -> None:
    scorer = OptionScorer(EndpointOptions(ListingModel(listed)))
    with pytest.raises(UnknownScore):
        scorer.score(CLAIM, Article(pmid="1", abstract=TEXT), Verdict.REFUTED)


def test_without_mass_nothing_can_be_normalised() -> None:
    scores = OptionScores(probabilities=dict.fromkeys(Verdict, 0.0))
    with pytest.raises(UnknownScore, match="does not answer the prompt"):
        scores.score(Verdict.SUPPORTED, normalised=True)


@pytest.mark.parametrize(("normalised", "expected"), [(False, 0.6), (True, 0.75)])
def test_it_is_the_evidence_scorer_of_the_published_reward(
    normalised: bool, expected: float
) -> None:
    model = EndpointOptions(ListingModel({"B": 0.6, "A": 0.1, "C": 0.1}))
    report = Report(verdict=Verdict.REFUTED, refuting=(Evidence(pmid="1", quote=TEXT),))
    articles = {"1": Article(pmid="1", abstract=TEXT)}
    scorer = OptionScorer(model, normalised=normalised)
    judged = judge_report(report, CLAIM, articles, scorer)
    assert judged.scores(Verdict.REFUTED) == pytest.approx([expected])
