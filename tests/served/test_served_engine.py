"""The served engine against the one in this process, over real requests to a real process."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from oracles.clinical import ClinicalWorld
from tests.served.conftest import Connect, Fake, lora
from tests.training.toy import NEEDS, chat, toy_world, warm_model
from training.dialogue import EpisodeSpeaker
from training.engine import Sampling, TokenRecord
from training.patience import ServedError
from training.row import Row
from training.served import ServedEngine
from training.vllm_server import VllmServer

torch = pytest.importorskip("torch", reason=NEEDS)
pytest.importorskip("httpx", reason=NEEDS)
InProcessEngine = pytest.importorskip("training.inprocess", reason=NEEDS).InProcessEngine

pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning")  # PEFT uses an old name

ROOMY = Sampling(max_turn_tokens=16, max_context_tokens=256)
SHORT_TURNS = Sampling(max_turn_tokens=3, max_context_tokens=256)
FULL_IN_A_TURN = Sampling(max_turn_tokens=16, max_context_tokens=61)
FULL_BY_A_REPLY = Sampling(max_turn_tokens=16, max_context_tokens=75)
NO_ROOM = Sampling(max_turn_tokens=16, max_context_tokens=8)


@pytest.fixture
def engine(fake: Fake, connect: Connect) -> ServedEngine:
    return ServedEngine(connect(fake), chat())


def toy_speakers(n: int, *, same: bool = False) -> list[EpisodeSpeaker]:
    world: ClinicalWorld = toy_world()
    cases = world.cases("train")
    return [EpisodeSpeaker(world.task, cases[0 if same else i]) for i in range(n)]


def ids(records: Sequence[TokenRecord]) -> list[tuple[int, ...]]:
    return [record.completion_ids for record in records]


@pytest.mark.parametrize(
    "limits", [ROOMY, SHORT_TURNS, FULL_IN_A_TURN, FULL_BY_A_REPLY, NO_ROOM], ids=str
)
def test_greedy_play_is_the_in_process_engines_to_the_token(
    engine: ServedEngine, limits: Sampling
) -> None:
    greedy = Sampling(
        greedy=True,
        max_turn_tokens=limits.max_turn_tokens,
        max_context_tokens=limits.max_context_tokens,
    )
    ours, theirs = toy_speakers(12), toy_speakers(12)
    served = engine.play(ours, range(12), greedy)
    here = InProcessEngine(warm_model(), chat()).play(theirs, range(12), greedy)
    for one, other in zip(served, here, strict=True):
        for name in ("prompt_ids", "completion_ids", "env_mask", "turns", "cut"):
            assert getattr(one, name) == getattr(other, name), name
        assert one.logprobs == pytest.approx(other.logprobs, abs=1e-5)
    assert [s.actions for s in ours] == [s.actions for s in theirs]
    cut = [record.cut for record in served]
    assert any(cut) is (limits is not ROOMY)


@pytest.mark.parametrize("limits", [FULL_IN_A_TURN, FULL_BY_A_REPLY], ids=str)
def test_the_context_limits_above_are_met_as_they_are_called(
    engine: ServedEngine, limits: Sampling
) -> None:
    """Else the comparison would show nothing."""
    records = engine.play(toy_speakers(24), range(24), limits)
    lengths = {len(r.prompt_ids) + len(r.completion_ids) for r in records if r.cut}
    assert lengths
    full = {length == limits.max_context_tokens for length in lengths}
    assert full == {limits is FULL_IN_A_TURN}


def test_logprobs_are_those_of_a_plain_forward_and_masks_fit(engine: ServedEngine) -> None:
    model = warm_model()
    records = engine.play(toy_speakers(8), range(8), ROOMY)
    for record in records:
        n = len(record.completion_ids)
        assert len(record.env_mask) == len(record.logprobs) == n
        whole = torch.tensor([record.prompt_ids + record.completion_ids])
        with torch.no_grad():
            logits = model(input_ids=whole).logits[0].float()
        plain = torch.log_softmax(logits, -1)[len(record.prompt_ids) - 1 : -1]
        plain = plain.gather(1, torch.tensor(record.completion_ids)[:, None])[:, 0]
        mine = torch.tensor(record.env_mask)
        assert (plain * mine - torch.tensor(record.logprobs)).abs().max() <= 1e-5
        spoken = {i for start, end in record.turns for i in range(start, end)}
        assert spoken == {i for i, mask in enumerate(record.env_mask) if mask}


def test_all_active_dialogues_are_one_request_a_turn(engine: ServedEngine, fake: Fake) -> None:
    records = engine.play(toy_speakers(16), range(16), ROOMY)
    turns = [len(record.turns) for record in records]
    expected = [sum(n > turn for n in turns) for turn in range(max(turns))]
    assert fake.seen["batches"] == expected


def test_only_rows_near_the_context_limit_go_in_a_request_of_their_own(
    engine: ServedEngine, fake: Fake
) -> None:
    engine.play(toy_speakers(16), range(16), FULL_IN_A_TURN)
    seen = fake.seen
    assert set(seen["tokens"][:1]) == {16}
    assert min(seen["tokens"]) < 16
    assert all(0 < tokens <= 16 for tokens in seen["tokens"])


def test_equal_prompts_are_not_answered_alike(engine: ServedEngine) -> None:
    records = engine.play(toy_speakers(16, same=True), [7] * 16, ROOMY)
    assert len(set(ids(records))) > 1


def test_sampling_defaults_of_the_checkpoint_have_no_say(
    start_fake: Callable[..., Fake], connect: Connect
) -> None:
    """With top-k 1 every rollout of a case would be the same."""
    engine = ServedEngine(connect(start_fake(default_top_k=1)), chat())
    records = engine.play(toy_speakers(16, same=True), range(16), ROOMY)
    assert len(set(ids(records))) > 1


FAULTS: dict[str, dict[str, Any]] = {
    "a connection that breaks": {"drops": 2},
    "an engine error": {"errors": 2},
    "a request that times out": {"hangs": 1, "hang_s": 3.0},
    "an answer without tokens": {"truncated": 1},
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_request_that_failed_is_asked_again(name: str, fake: Fake, connect: Connect) -> None:
    said: list[str] = []
    engine = ServedEngine(connect(fake, said=said, timeout_s=2.0), chat())
    fake.control(**FAULTS[name])
    records = engine.play(toy_speakers(6), range(6), ROOMY)
    assert all(record.turns for record in records)
    assert any("trying again for" in line for line in said)
    assert said[-1].startswith("it works again")


def test_a_server_killed_in_a_rollout_and_back_empty_is_asked_the_same_turn_again(
    fake: Fake, connect: Connect
) -> None:
    said: list[str] = []
    sync = connect(fake, said=said)
    engine = ServedEngine(sync, chat())
    sync.publish("v3", lambda folder: lora().save_pretrained(folder), version=3)
    fake.control(hangs=100, hang_s=0.3)  # so that the kill falls into the rollout
    reborn = threading.Timer(0.5, lambda: (fake.kill(), time.sleep(0.3), fake.start()))
    reborn.start()
    speakers = toy_speakers(8)
    records = engine.play(speakers, range(8), ROOMY)
    reborn.join()
    assert fake.adapters == ["run-1-v3"]  # it came back empty
    assert set(fake.seen["models"]) == {"run-1-v3"}
    assert {record.version for record in records} == {3}
    for speaker, record in zip(speakers, records, strict=True):
        assert record.cut or len(record.turns) == len(speaker.actions)
    assert any("cannot be reached" in line for line in said)


def test_a_hung_server_is_waited_for(fake: Fake, connect: Connect) -> None:
    said: list[str] = []
    engine = ServedEngine(connect(fake, said=said, timeout_s=0.5), chat())
    fake.stop()
    threading.Timer(1.5, fake.go_on).start()
    assert engine.play(toy_speakers(2), range(2), ROOMY)
    assert any("does not answer within 0.5 s" in line for line in said)


def test_when_the_patience_runs_out_it_says_so_and_stops(fake: Fake, connect: Connect) -> None:
    engine = ServedEngine(connect(fake, patience_s=0.5), chat())
    fake.kill()
    with pytest.raises(ServedError, match=r"cannot be reached .* given up after 0.5 s") as caught:
        engine.play(toy_speakers(2), range(2), ROOMY)
    assert "\n" not in str(caught.value)


def test_a_refusal_is_not_waited_out(start_fake: Callable[..., Fake], connect: Connect) -> None:
    engine = ServedEngine(connect(start_fake(context=40)), chat())
    began = time.monotonic()
    with pytest.raises(ServedError, match="maximum context length"):
        engine.play(toy_speakers(2), range(2), ROOMY)
    assert time.monotonic() - began < 5.0


def test_the_key_comes_from_the_environment_and_stands_in_no_message(
    start_fake: Callable[..., Fake], connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = start_fake(api_key="the-very-secret")
    with pytest.raises(ServedError, match="refuses the key; set VLLM_API_KEY") as caught:
        connect(fake)
    monkeypatch.setenv("VLLM_API_KEY", "a-wrong-secret")
    with pytest.raises(ServedError, match="refuses the key") as wrong:
        connect(fake)
    assert "secret" not in f"{caught.value}{wrong.value}"
    monkeypatch.setenv("VLLM_API_KEY", "the-very-secret")
    sync = connect(fake)
    assert ServedEngine(sync, chat()).play(toy_speakers(2), range(2), ROOMY)
    assert "secret" not in repr(sync.server)


def test_something_else_at_the_url_is_no_vllm_server(fake: Fake, connect: Connect) -> None:
    server = VllmServer(f"{fake.url}/elsewhere", timeout_s=5.0)
    try:
        with pytest.raises(ServedError, match=r"is not ready: .*Not Found"):
            server.offer()
    finally:
        server.close()


def test_a_row_may_say_at_least_one_token_and_never_more_than_its_limits() -> None:
    row = Row(toy_speakers(1)[0], chat(), NO_ROOM)
    row.begin_turn()
    assert row.allowance == 1
    row.say(0, -1.0)
    assert not row.speaking
    assert row.cut
