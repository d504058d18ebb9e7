"""The gap of a real, tiny policy: teacher forcing against independent computations, hard inputs."""

from __future__ import annotations

import math
from typing import Any

import pytest

from clinical_envs.errors import InvalidArgument
from tests.training.toy import NEEDS, SIZE, chat, fresh_model, tokenizer
from training.embedded import EmbeddedSize, build_model

torch = pytest.importorskip("torch", reason=NEEDS)
pytest.importorskip("transformers", reason=NEEDS)
pytest.importorskip("trl", reason=NEEDS)
internalization = pytest.importorskip("training.judges.internalization", reason=NEEDS)
answer_logprobs = internalization.answer_logprobs
measure, RubricPrompt = internalization.measure, internalization.RubricPrompt
InProcessEngine = pytest.importorskip("training.inprocess", reason=NEEDS).InProcessEngine

PROMPTS = tuple(
    RubricPrompt(prompt=i, question=question, criteria=criteria)
    for i, (question, criteria) in enumerate(
        [
            ("Which drug?", ("Names aspirin", "Gives the dose")),
            ("Is it safe for my mother, who is 80?", ("Asks for kidney function",)),
        ]
    )
)
SHORT = {"answer_tokens": 12, "context_tokens": 512}


def by_one_forward_a_token(model: Any, context: tuple[int, ...], answer: tuple[int, ...]) -> list:
    """In float64, token after token, without batch, padding or cache."""
    found = []
    for i, token in enumerate(answer):
        with torch.no_grad():
            logits = model(input_ids=torch.tensor([[*context, *answer[:i]]])).logits[0, -1]
        found.append(float(torch.log_softmax(logits.double(), -1)[token]))
    return found


def sharp_model() -> Any:
    """A random policy with strong preferences, so that contexts matter to it."""
    size = EmbeddedSize(
        hidden=32,
        layers=2,
        heads=2,
        kv_heads=1,
        head_dim=16,
        feed_forward=64,
        initializer_range=0.4,
    )
    return build_model(tokenizer(), 3, size)


def test_teacher_forcing_is_a_forward_pass_a_token_for_contexts_and_answers_of_any_length() -> None:
    model = sharp_model()
    texts = ["a", "Which drug?", "Mode: explore.\nSomething longer, to be padded against."]
    contexts = [chat().prompt(text) for text in texts]
    answers = [chat().turn("It is aspirin."), chat().turn(""), (7,)]
    found = answer_logprobs(model, chat().pad, contexts, answers, batch=2)
    for context, answer, logprobs in zip(contexts, answers, found, strict=True):
        assert len(logprobs) == len(answer)
        assert logprobs == pytest.approx(by_one_forward_a_token(model, context, answer), abs=1e-5)


def test_teacher_forcing_is_the_loss_that_the_model_itself_computes() -> None:
    model, context, answer = sharp_model(), chat().prompt("Which drug?"), chat().turn("Aspirin.")
    (found,) = answer_logprobs(model, chat().pad, [context], [answer])
    labels = torch.tensor([[-100] * len(context) + list(answer)])
    with torch.no_grad():
        loss = model(input_ids=torch.tensor([[*context, *answer]]), labels=labels).loss
    assert -sum(found) / len(found) == pytest.approx(float(loss), abs=1e-5)


def test_teacher_forcing_leaves_a_model_in_training_as_it_was_and_uses_no_dropout() -> None:
    model = sharp_model()
    contexts, answers = [chat().prompt("a")], [chat().turn("b")]
    steady = answer_logprobs(model, chat().pad, contexts, answers)
    model.train()
    assert answer_logprobs(model, chat().pad, contexts, answers) == steady
    assert model.training


def test_the_gap_is_the_mean_of_differences_of_the_sampled_tokens() -> None:
    """Recomputed from the engine's own samples and their recorded log-probabilities."""
    model = sharp_model()
    seen: list[tuple[Any, Any]] = []
    play = InProcessEngine.play

    def remember(engine: Any, speakers: Any, seeds: Any, sampling: Any) -> Any:
        records = play(engine, speakers, seeds, sampling)
        seen.extend(zip(speakers, records, strict=True))
        return records

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(InProcessEngine, "play", remember)
        found = measure(model, tokenizer(), PROMPTS, step=0, samples=2, **SHORT)
    assert [one.prompt for one in found.conditioned] == [0, 0, 1, 1]
    for sample, (speaker, record) in zip(found.conditioned, seen[:4], strict=True):
        assert speaker.opening == PROMPTS[sample.prompt].conditioned
        context = chat().prompt(PROMPTS[sample.prompt].question)
        plain = by_one_forward_a_token(model, context, record.completion_ids)
        expected = sum(a - b for a, b in zip(plain, record.logprobs, strict=True)) / len(plain)
        assert sample.tokens == len(record.completion_ids)
        assert sample.gap == pytest.approx(expected, abs=1e-4)
    assert found.gap.mean is not None
    assert found.gap.mean < 0


def test_the_rubric_stands_where_gemmas_template_puts_a_system_text() -> None:
    prompt = PROMPTS[0]
    rubric, question = prompt.conditioned.split("\n\n", 1)
    messages = [{"role": "system", "content": rubric}, {"role": "user", "content": question}]
    rendered = tokenizer().apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
    ids = tokenizer()(rendered, add_special_tokens=False)["input_ids"]
    assert chat().prompt(prompt.conditioned) == tuple(ids)
    assert "1. Names aspirin\n2. Gives the dose" in rubric


def test_with_nothing_in_view_the_gap_is_exactly_0() -> None:
    bare = RubricPrompt(prompt=0, question="Which drug?", criteria=())
    found = measure(sharp_model(), tokenizer(), [bare], step=0, samples=4, **SHORT)
    assert [sample.gap for sample in found.conditioned] == [0.0] * 4


def test_one_sample_is_enough() -> None:
    found = measure(sharp_model(), tokenizer(), PROMPTS, step=0, samples=1, **SHORT)
    assert (found.gap.scored, found.gap.unscored) == (2, 0)


def test_a_rubric_that_leaves_no_room_for_an_answer_is_unscored_and_never_cut() -> None:
    long = RubricPrompt(prompt="long", question="Which drug?", criteria=("Names aspirin",) * 99)
    found = measure(sharp_model(), tokenizer(), [*PROMPTS, long], step=0, samples=2, **SHORT)
    assert found.unfit == ("long",)
    assert found.gaps["long"] is None
    assert (found.gap.scored, found.gap.unscored) == (2, 1)
    assert {sample.prompt for sample in (*found.conditioned, *found.plain)} == {0, 1}


class Mute:
    """A policy that ends its turn at once."""

    def __init__(self, model: Any) -> None:
        self.model, self.config, self.device = model, model.config, model.device
        self.training = False

    def eval(self) -> None:
        """Nothing to switch."""

    def train(self, mode: bool) -> None:
        """Nothing to switch."""

    def __call__(self, **inputs: Any) -> Any:
        out = self.model(**inputs)
        out.logits[..., chat().end_of_turn] += 1e4
        return out


def test_an_empty_answer_is_unscored_and_never_0() -> None:
    found = measure(Mute(fresh_model()), tokenizer(), PROMPTS, step=0, samples=2, **SHORT)
    assert [sample.tokens for sample in found.conditioned] == [1] * 4
    assert [sample.gap for sample in found.conditioned] == [None] * 4
    assert (found.gap.mean, found.gap.unscored) == (None, 2)


def test_rewards_are_those_of_the_answers_texts_and_unscored_ones_stay_so() -> None:
    heard: list[tuple[Any, str]] = []

    def score(prompt: Any, text: str) -> float | None:
        heard.append((prompt.prompt, text))
        return None if prompt.prompt else len(text) / 100

    found = measure(sharp_model(), tokenizer(), PROMPTS, step=0, samples=2, score=score, **SHORT)
    assert [prompt for prompt, _ in heard] == [0, 0, 1, 1] * 2
    assert [one.reward for one in found.conditioned] == [
        len(heard[0][1]) / 100,
        len(heard[1][1]) / 100,
        None,
        None,
    ]
    assert all("<end_of_turn>" not in text for _, text in heard)


def test_samples_are_seeded_whatever_the_batch_and_the_order_of_prompts() -> None:
    model = sharp_model()
    one = measure(model, tokenizer(), PROMPTS, step=0, samples=2, batch=1, **SHORT)
    other = measure(model, tokenizer(), PROMPTS[::-1], step=0, samples=2, **SHORT)
    assert one.gaps[0] == pytest.approx(other.gaps[0], abs=1e-5)
    assert one.gaps[1] == pytest.approx(other.gaps[1], abs=1e-5)
    reseeded = measure(model, tokenizer(), PROMPTS, step=0, samples=2, seed=1, **SHORT)
    assert reseeded.gaps[0] != pytest.approx(one.gaps[0], abs=1e-5)


def test_the_expected_gap_of_answers_of_one_token_is_minus_the_divergence() -> None:
    """Closed form over the vocabulary; 200 samples, four standard errors."""
    model, prompt = sharp_model(), PROMPTS[0]
    logs = []
    for text in (prompt.conditioned, prompt.question):
        with torch.no_grad():
            logits = model(input_ids=torch.tensor([chat().prompt(text)])).logits[0, -1]
        logs.append(torch.log_softmax(logits.double(), -1))
    p = logs[0].exp()
    p[chat().end_of_turn] = 0  # an empty answer is unscored
    p /= p.sum()
    ratio = logs[1] - logs[0]
    expected = float((p * ratio).sum())
    sd = math.sqrt(float((p * ratio**2).sum()) - expected**2)
    found = measure(
        model,
        tokenizer(),
        [prompt],
        step=0,
        samples=200,
        answer_tokens=1,
        context_tokens=512,
        batch=200,
    )
    gaps = [one.gap for one in found.conditioned if one.gap is not None]
    assert expected < -0.1
    assert sum(gaps) / len(gaps) == pytest.approx(expected, abs=4 * sd / math.sqrt(len(gaps)))


@pytest.mark.parametrize(("prompts", "samples"), [((), 1), (PROMPTS, 0), (PROMPTS[:1] * 2, 1)])
def test_no_prompts_no_samples_or_a_prompt_twice_are_refused(
    prompts: tuple[Any, ...], samples: int
) -> None:
    with pytest.raises(InvalidArgument, match="each prompt once"):
        measure(fresh_model(size=SIZE), tokenizer(), prompts, step=0, samples=samples)
