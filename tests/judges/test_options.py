"""A checkpoint as an option model of the likelihood checker."""

from __future__ import annotations

from pathlib import Path

import pytest

from clinical_envs.errors import InvalidArgument
from tests.training.toy import NEEDS, chat, fresh_model, tokenizer
from training.agents.evidence_scorer import scorer_prompt
from training.judges.checkers import LEAST_MASS, LikelihoodChecker

torch = pytest.importorskip("torch", reason=NEEDS)
pytest.importorskip("transformers", reason=NEEDS)
pytest.importorskip("trl", reason=NEEDS)
load_options = pytest.importorskip("training.judges.options", reason=NEEDS).load_options


def test_the_verdict_of_a_checkpoint_is_that_of_its_own_distribution(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = fresh_model()
    model.save_pretrained(tmp_path)
    tokenizer().save_pretrained(tmp_path)
    checker = LikelihoodChecker(load_options(f"hf:{tmp_path}"), "tiny")
    check = checker.check("It helps.", "It harms.")
    ids = list(chat().prompt(scorer_prompt("It helps.", "It harms.")))
    with torch.no_grad():
        p = torch.softmax(model(input_ids=torch.tensor([ids])).logits[0, -1].double(), -1)
    supported, refuted, neither = (
        float(p[tokenizer().convert_tokens_to_ids(letter)]) for letter in "ABC"
    )
    mass = supported + refuted + neither
    assert checker.mean_mass == pytest.approx(mass, rel=1e-4)
    assert mass < LEAST_MASS  # an untrained policy hardly answers with an option
    assert check is None
    monkeypatch.setattr("training.judges.checkers.LEAST_MASS", mass / 2)
    check = checker.check("It helps.", "It harms.")
    assert check is not None
    expected = (supported / mass, neither / mass, refuted / mass)
    assert check.probs == pytest.approx(expected, rel=1e-3)


def test_a_checkpoint_without_a_chat_template_is_refused(tmp_path: Path) -> None:
    fresh_model().save_pretrained(tmp_path)
    tokenizer().save_pretrained(tmp_path)
    (tmp_path / "chat_template.jinja").unlink()
    with pytest.raises(InvalidArgument, match="has no chat template"):
        load_options(f"hf:{tmp_path}")
