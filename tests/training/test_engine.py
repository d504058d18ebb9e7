"""The in-process engine against a plain forward pass, and its limits against scripts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest

from clinical_envs.catalog import load_task
from clinical_envs.simulator import Invalid
from oracles.clinical import ClinicalWorld
from tests.training.toy import (
    NEEDS,
    ask_text,
    chat,
    commit_text,
    fresh_model,
    toy_task,
    toy_world,
    warm_model,
)
from training.dialogue import EpisodeSpeaker
from training.engine import Sampling, TokenRecord

torch = pytest.importorskip("torch", reason=NEEDS)
transformers = pytest.importorskip("transformers", reason=NEEDS)
pytest.importorskip("trl", reason=NEEDS)
InProcessEngine = pytest.importorskip("training.inprocess", reason=NEEDS).InProcessEngine
scripted = pytest.importorskip("tests.training.scripted", reason=NEEDS)

TIGHT = Sampling(max_turn_tokens=5, max_context_tokens=120)
ROOMY = Sampling(max_turn_tokens=16, max_context_tokens=256)
HELLO, REPLY = "Mode: explore.", '{"error": "empty", "turns_left": 3}'


def toy_speakers(n: int) -> list[EpisodeSpeaker]:
    world = toy_world()
    return [EpisodeSpeaker(world.task, case) for case in world.cases("train")[:n]]


def logprobs_of(model: Any, record: TokenRecord) -> Any:
    """Log-probabilities over the vocabulary that a plain forward pass gives each completion token.

    Shape (completion tokens, vocabulary).
    """
    ids = torch.tensor([record.prompt_ids + record.completion_ids])
    with torch.no_grad():
        logits = model(input_ids=ids).logits[0]
    return torch.log_softmax(logits.float(), -1)[len(record.prompt_ids) - 1 : -1]


def assert_logprobs_are_a_plain_forwards(model: Any, records: Sequence[TokenRecord]) -> None:
    for record in records:
        ids, mask = torch.tensor(record.completion_ids), torch.tensor(record.env_mask)
        plain = logprobs_of(model, record).gather(1, ids[:, None])[:, 0] * mask
        assert (plain - torch.tensor(record.logprobs)).abs().max() <= 1e-5


@contextmanager
def batch_sizes(model: Any) -> Iterator[list[int]]:
    """Rows of every forward pass."""
    sizes: list[int] = []
    hook = model.register_forward_pre_hook(
        lambda _, args, kwargs: sizes.append(len(kwargs["input_ids"])), with_kwargs=True
    )
    yield sizes
    hook.remove()


def test_logprobs_are_a_plain_forwards_with_ragged_turns_finished_rows_and_cuts() -> None:
    model, speakers = warm_model(), toy_speakers(40)
    records = InProcessEngine(model, chat()).play(speakers, range(40), TIGHT)
    turns = [end - start for record in records for start, end in record.turns]
    assert len({len(record.turns) for record in records}) >= 3
    assert len(set(turns)) >= 2
    assert any(record.cut for record in records)
    assert not all(record.cut for record in records)
    assert_logprobs_are_a_plain_forwards(model, records)


def test_logprobs_are_a_plain_forwards_with_prompts_of_several_lengths() -> None:
    model = fresh_model()
    worlds = [ClinicalWorld(load_task(name)) for name in ("titration", "refill", "diagnostics")]
    speakers = [
        EpisodeSpeaker(world.task, case) for world in worlds for case in world.cases("sft")[:3]
    ]
    records = InProcessEngine(model, chat()).play(speakers, range(9), TIGHT)
    assert len({len(record.prompt_ids) for record in records}) >= 2
    assert_logprobs_are_a_plain_forwards(model, records)


@pytest.mark.filterwarnings("ignore:`is_gradient_checkpointing`:FutureWarning")  # PEFT asks for it
def test_an_adapted_model_is_sampled_with_its_adapter() -> None:
    peft = pytest.importorskip("peft", reason=NEEDS)
    base = warm_model()
    lora = peft.LoraConfig(r=4, target_modules="all-linear", init_lora_weights=False)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = peft.get_peft_model(base, lora).eval()
    records = InProcessEngine(model, chat()).play(toy_speakers(6), range(6), TIGHT)
    assert_logprobs_are_a_plain_forwards(model, records)
    with model.disable_adapter(), pytest.raises(AssertionError):
        assert_logprobs_are_a_plain_forwards(model, records)


def test_masked_in_tokens_are_the_turns_and_masked_out_ones_the_replies() -> None:
    listeners = [scripted.Listener(speaker) for speaker in toy_speakers(30)]
    records = InProcessEngine(warm_model(), chat()).play(listeners, range(30), ROOMY)
    assert max(len(listener.heard) for listener in listeners) >= 3
    for listener, record in zip(listeners, records, strict=True):
        assert record.prompt_ids == chat().prompt(listener.opening)
        expected: list[int] = []
        position = 0
        for (text, _, reply), (start, end) in zip(listener.heard, record.turns, strict=True):
            ids = list(record.completion_ids[start:end])
            answer = () if reply is None else chat().reply(reply)
            assert start == position
            assert chat().text(ids) == text
            assert record.completion_ids[end : end + len(answer)] == answer
            expected += [1] * len(ids) + [0] * len(answer)
            position = end + len(answer)
        assert list(record.env_mask) == expected
        assert len(record.completion_ids) == len(record.logprobs) == position
        assert all(
            (logprob < 0.0) if mine else (logprob == 0.0)
            for mine, logprob in zip(record.env_mask, record.logprobs, strict=True)
        )


def test_what_was_said_is_what_the_episode_records() -> None:
    speakers = toy_speakers(20)
    records = InProcessEngine(warm_model(), chat()).play(speakers, range(20), ROOMY)
    for speaker, record in zip(speakers, records, strict=True):
        episode = speaker.finish(policy="policy", rollout=0)
        spoken = [chat().text(list(record.completion_ids[a:b])) for a, b in record.turns]
        assert episode.raw is not None
        assert list(episode.raw[: len(spoken)]) == spoken


def test_a_dialogue_alone_is_what_it_is_in_a_batch() -> None:
    engine = InProcessEngine(warm_model(), chat())
    together = engine.play(toy_speakers(12), range(12), TIGHT)
    for position in (0, 5, 11):
        alone = engine.play([toy_speakers(12)[position]], [position], TIGHT)[0]
        assert alone.completion_ids == together[position].completion_ids
        assert alone.turns == together[position].turns
        assert alone.logprobs == pytest.approx(together[position].logprobs, abs=1e-5)


def test_seeds_fix_what_is_sampled_and_differ() -> None:
    engine, world = InProcessEngine(warm_model(), chat()), toy_world()
    case = world.cases("train")[0]
    speakers = [EpisodeSpeaker(world.task, case) for _ in range(16)]
    records = engine.play(speakers, [*range(15), 0], ROOMY)
    assert records[0].completion_ids == records[15].completion_ids
    assert len({record.completion_ids for record in records}) >= 5


def test_sampling_follows_the_models_probabilities() -> None:
    n, model = 400, warm_model()
    case = toy_world().cases("train")[0]
    speakers = [EpisodeSpeaker(toy_task(turn_cap=1), case) for _ in range(n)]
    records = InProcessEngine(model, chat()).play(speakers, range(n), Sampling(max_turn_tokens=1))
    chances = logprobs_of(model, records[0])[0].exp()
    counts = torch.bincount(
        torch.tensor([record.completion_ids[0] for record in records]), minlength=len(chances)
    )
    error = 4.0 * (chances * (1.0 - chances) / n).sqrt() + 1.0 / n
    assert ((counts / n - chances).abs() <= error).all()
    assert (counts > 0).sum() >= 2


def test_greedy_play_takes_the_likeliest_token_whatever_the_seed() -> None:
    model = warm_model()
    greedy = Sampling(greedy=True, max_turn_tokens=16, max_context_tokens=256)
    records = InProcessEngine(model, chat()).play(toy_speakers(8), range(8), greedy)
    for record in records:
        likeliest = logprobs_of(model, record).argmax(-1).tolist()
        mine = [i for i, mask in enumerate(record.env_mask) if mask]
        assert [record.completion_ids[i] for i in mine] == [likeliest[i] for i in mine]
    others = InProcessEngine(model, chat()).play(toy_speakers(8), range(50, 58), greedy)
    assert [r.completion_ids for r in others] == [r.completion_ids for r in records]


def test_rows_that_are_over_leave_the_batch_and_a_prompt_is_read_once() -> None:
    model = warm_model()
    with batch_sizes(model) as sizes:
        InProcessEngine(model, chat()).play(toy_speakers(24), range(24), ROOMY)
    assert sizes[:2] == [1, 24]
    assert sizes[1:] == sorted(sizes[1:], reverse=True)
    assert sizes[-1] < 24


def test_a_scripted_dialogue_feeds_each_row_what_it_said_and_heard() -> None:
    ask, commit = chat().turn(ask_text(toy_task(), 0)), chat().turn(commit_text(toy_task(), 1))
    model = scripted.ScriptedModel({HELLO: [ask, ask, commit], "Mode: exploit.": [commit]})
    speakers = [scripted.Script(HELLO, [REPLY, REPLY]), scripted.Script("Mode: exploit.")]
    long, short = InProcessEngine(model, chat()).play(speakers, [0, 1], ROOMY)
    assert long.completion_ids == ask + chat().reply(REPLY) + ask + chat().reply(REPLY) + commit
    assert short.completion_ids == commit
    assert not long.cut
    assert [size for size in model.batch_sizes if size == 1]


def test_a_turn_at_its_token_limit_is_cut_and_the_next_turn_is_whole() -> None:
    babble = chat().turn("yes no yes no yes no")[:-1]
    ask = chat().turn(ask_text(toy_task(), 0))
    model = scripted.ScriptedModel({HELLO: [babble, ask, ask]})
    speaker = scripted.Script(HELLO, [REPLY, REPLY])
    (record,) = InProcessEngine(model, chat()).play([speaker], [0], Sampling(max_turn_tokens=5))
    assert [end - start for start, end in record.turns] == [5, len(ask), len(ask)]
    assert [complete for _, complete in speaker.heard] == [False, True, True]
    assert record.cut


def test_a_cut_turn_is_an_invalid_turn_too_long_and_is_charged() -> None:
    task = toy_task()
    speaker = EpisodeSpeaker(task, toy_world().cases("train")[0])
    babble = chat().turn("yes no yes no yes no")[:-1]
    commit = chat().turn(commit_text(task, 1))
    model = scripted.ScriptedModel({speaker.opening: [babble, commit]})
    InProcessEngine(model, chat()).play([speaker], [0], Sampling(max_turn_tokens=5))
    assert speaker.actions[0] == Invalid("too_long")
    assert speaker.decision == 1
    assert len(speaker.actions) == 2


def test_a_turn_that_ends_with_its_last_allowed_token_is_whole() -> None:
    ask = chat().turn(ask_text(toy_task(), 0))
    model, speaker = scripted.ScriptedModel({HELLO: [ask]}), scripted.Script(HELLO)
    sampling = Sampling(max_turn_tokens=len(ask))
    (record,) = InProcessEngine(model, chat()).play([speaker], [0], sampling)
    assert speaker.heard == [(ask_text(toy_task(), 0), True)]
    assert not record.cut


def test_a_dialogue_at_the_context_limit_ends_as_no_decision() -> None:
    task = toy_task()
    speaker = EpisodeSpeaker(task, toy_world().cases("train")[0])
    ask = chat().turn(ask_text(task, 0))
    model = scripted.ScriptedModel({speaker.opening: [ask] * task.turn_cap})
    limit = len(chat().prompt(speaker.opening)) + 40
    sampling = Sampling(max_context_tokens=limit)
    (record,) = InProcessEngine(model, chat()).play([speaker], [0], sampling)
    assert record.cut
    assert len(record.prompt_ids) + len(record.completion_ids) <= limit
    assert record.env_mask[-1] == 1
    episode = speaker.finish(policy="policy", rollout=0)
    assert speaker.decision is None
    assert len(episode.turns) == task.turn_cap


def sliding_model(window: int) -> Any:
    config = fresh_model().config
    config.layer_types = ["sliding_attention", "full_attention"]
    config.sliding_window = window
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return transformers.Gemma3ForCausalLM(config).eval()


@pytest.mark.parametrize("window", [120, 48, 8])
def test_layers_with_a_sliding_window_are_exact_within_it_and_beyond(window: int) -> None:
    model = sliding_model(window)
    speakers, sampling = toy_speakers(4), Sampling(max_turn_tokens=3, max_context_tokens=80)
    records = InProcessEngine(model, chat()).play(speakers, range(4), sampling)
    assert max(len(record.completion_ids) for record in records) > 8
    assert_logprobs_are_a_plain_forwards(model, records)


@pytest.mark.parametrize("training", [True, False])
def test_playing_keeps_the_models_mode_and_takes_no_gradient(training: bool) -> None:
    model = fresh_model().train(training)
    InProcessEngine(model, chat()).play(toy_speakers(2), range(2), TIGHT)
    assert model.training is training
    assert all(weight.grad is None for weight in model.parameters())
