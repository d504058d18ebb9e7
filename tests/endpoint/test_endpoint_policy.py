"""Encounters over HTTP are those played in process; failures keep what was played."""

from __future__ import annotations

import json
import threading

import pytest

pytest.importorskip("httpx", reason="pip install 'clinical-envs[agents]'")

from clinical_envs import load_task, read_episodes
from clinical_envs.adapters.dialogues import dialogue_for
from clinical_envs.episode import AskTurn, CommitTurn, InvalidTurn
from clinical_envs.protocol import action_text, prompt
from clinical_envs.simulator import Ask, Commit, Encounter
from oracles import audit
from oracles.clinical import ClinicalWorld
from oracles.evaluation import evaluate
from oracles.policy import FunctionPolicy, Rollout
from tests.endpoint.fake_server import FakeEndpoint, status
from tests.endpoint.speakers import OracleSpeaker, SeededSpeaker, first_finding
from training.endpoint import Completion, ContextExceededError, Endpoint, EndpointError
from training.endpoint_policy import EndpointPolicy

WORLD = ClinicalWorld(load_task("titration"))
TASK = WORLD.task
CASES = WORLD.cases("heldout")[:12]
NAME = "openai:http://127.0.0.1:8000#m"
SPEAKERS = {"first finding": first_finding, "oracle": OracleSpeaker(TASK)}


class Scripted:
    """A chat model without a server: says what a function of the request says."""

    def __init__(self, speak):
        self.speak, self.asked = speak, []

    def chat(self, messages, **how):
        self.asked.append({"messages": messages, **how})
        said = self.speak(self.asked[-1])
        return said if isinstance(said, Completion) else Completion(text=said, finish_reason="stop")


def rollout(number=0, *, greedy=False, seed=11):
    return Rollout(case=CASES[0], number=number, greedy=greedy, seed=seed)


def play_one(speak, world=WORLD, **settings):
    model = Scripted(speak)
    case = world.cases("heldout")[0]
    given = [Rollout(case=case, number=0, greedy=False, seed=11)]
    (episode,) = EndpointPolicy(world.task, model, NAME, **settings).play(given)
    return episode, model


@pytest.mark.parametrize("name", SPEAKERS)
def test_over_http_a_policy_is_measured_as_in_process(name):
    speak = SPEAKERS[name]
    here = FunctionPolicy("here", lambda view, rng: speak(view.messages))
    expected = evaluate(WORLD, here, CASES, k=2, greedy=True)
    with (
        FakeEndpoint(lambda body: speak(body["messages"])) as server,
        Endpoint(server.spec) as endpoint,
    ):
        policy = EndpointPolicy(TASK, endpoint, server.spec)
        played = evaluate(WORLD, policy, CASES, k=2, greedy=True)
        assert endpoint.usage.requests == sum(len(e.turns) for e in played)
    limits = {"max_tokens": 1024, "json_schema": False}
    assert played == [
        e.model_copy(update={"policy": server.spec, "meta": e.meta | limits}) for e in expected
    ]
    assert [WORLD.assess(e).regret for e in played] == [WORLD.assess(e).regret for e in expected]


@pytest.mark.parametrize(
    "task",
    [
        "ClinicalFactCheck-v0",
        "ClinicalFactCheckLabel-v0",
        "ClinicalCheckedQA-v0",
        "ClinicalRubric-v0",
    ],
)
def test_the_evidence_worlds_are_played_in_their_own_words(task):
    world = ClinicalWorld(load_task(task))
    case = world.cases("heldout")[0]

    def speak(request):
        turn = len(request["messages"]) // 2
        action = Ask(turn) if turn < 2 else Commit(0)
        dialogue = dialogue_for(world.task)(Encounter(world.task, case))
        for earlier in range(turn):
            dialogue.play(Ask(earlier))
        return dialogue.write(action)

    episode, model = play_one(speak, world, json_schema=True)
    assert [type(turn) for turn in episode.turns] == [AskTurn, AskTurn, CommitTurn]
    assert world.assess(episode).turns == 3
    assert episode.raw == tuple(speak(request) for request in model.asked)


def test_encounters_are_played_at_once():
    together = threading.Barrier(8, timeout=20)

    def speak(request):
        together.wait()
        return first_finding(request["messages"])

    policy = EndpointPolicy(TASK, Scripted(speak), NAME, batch_size=8)
    played = policy.play([rollout(number) for number in range(8)])
    assert [episode.rollout for episode in played] == list(range(8))


def test_no_more_are_played_at_once_than_the_batch_holds():
    running, most, lock = 0, 0, threading.Lock()

    def speak(request):
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        threading.Event().wait(0.002)
        with lock:
            running -= 1
        return first_finding(request["messages"])

    policy = EndpointPolicy(TASK, Scripted(speak), NAME, batch_size=3)
    assert len(list(policy.play([rollout(n) for n in range(12)]))) == 12
    assert most == 3


def test_rollouts_are_sampled_at_temperature_1_and_greedy_ones_at_0_each_with_its_seeds():
    model = Scripted(lambda request: first_finding(request["messages"]))
    policy = EndpointPolicy(TASK, model, NAME, max_tokens=77, batch_size=1)
    sampled, greedy = policy.play([rollout(seed=2**64 - 1), rollout(greedy=True, seed=40)])
    assert [(a["temperature"], a["max_tokens"], a["schema"]) for a in model.asked] == [
        *[(1.0, 77, None)] * 2,
        *[(0.0, 77, None)] * 2,
    ]
    assert [a["seed"] for a in model.asked] == [2**64 - 1, 2**64, 40, 41]
    assert (sampled.greedy, greedy.greedy) == (False, True)
    assert sampled.meta == {"max_tokens": 77, "json_schema": False}


def test_the_model_sees_the_dialogue_and_nothing_that_is_hidden():
    _, model = play_one(lambda request: first_finding(request["messages"]))
    first, second = (request["messages"] for request in model.asked)
    assert first == [{"role": "user", "content": prompt(TASK, CASES[0].start(TASK))}]
    assert [m["role"] for m in second] == ["user", "assistant", "user"]
    assert second[1]["content"] == first_finding(first)


def test_a_cut_turn_is_invalid_whatever_it_says():
    commit = '{"action": "commit", "decision": "no_therapy"}'
    cut = Completion(text=commit, finish_reason="length")
    episode, _ = play_one(lambda request: cut if len(request["messages"]) == 1 else commit)
    assert episode.turns == (
        InvalidTurn(invalid="too_long"),
        CommitTurn(commit="no_therapy"),
    )
    assert episode.raw == (commit, commit)


def test_a_dialogue_that_outgrows_the_context_ends_as_no_decision():
    def speak(request):
        if len(request["messages"]) > 3:
            raise ContextExceededError("too long")
        return '{"action": "ask", "finding": "prior_vte"}'

    episode, model = play_one(speak)
    assert [type(turn) for turn in episode.turns] == [AskTurn, AskTurn] + [InvalidTurn] * (
        TASK.turn_cap - 2
    )
    assert len(model.asked) == 3, "it is not asked again"
    assert WORLD.assess(episode).decision is None


def test_a_context_that_holds_no_prompt_is_an_error_and_no_play():
    def speak(request):
        raise ContextExceededError("too long")

    with pytest.raises(ContextExceededError):
        play_one(speak)


def test_the_schema_is_sent_and_the_name_and_the_record_say_so():
    episode, model = play_one(lambda request: first_finding(request["messages"]), json_schema=True)
    kinds = model.asked[0]["schema"]["anyOf"]
    assert kinds[0]["properties"]["finding"]["enum"] == list(TASK.finding_ids)
    assert kinds[1]["properties"]["decision"]["enum"] == list(TASK.decision_ids)
    assert episode.policy == f"{NAME} with a JSON schema"
    assert episode.meta["json_schema"] is True


@pytest.mark.parametrize("text", ["I would ask.", '{"action": "ask", "finding": "x"}', "{}"])
def test_a_server_that_ignores_the_schema_is_found_out(text):
    with pytest.raises(EndpointError, match="does not apply JSON schemas"):
        play_one(lambda request: text, json_schema=True)
    assert play_one(lambda request: text)[0].turns[0].invalid


def test_under_a_schema_a_refusal_and_a_cut_turn_are_still_turns():
    said = [
        Completion(text="", finish_reason="content_filter"),
        Completion(text='{"action": "a', finish_reason="length"),
        '{"action": "commit", "decision": "no_therapy"}',
    ]
    episode, _ = play_one(lambda request: said[len(request["messages"]) // 2], json_schema=True)
    assert [getattr(turn, "invalid", None) for turn in episode.turns] == [
        "empty",
        "too_long",
        None,
    ]


def test_the_first_failure_stops_the_others_and_is_the_one_that_is_told():
    def speak(request):
        if request["seed"] == 3:
            raise EndpointError("number 3 failed")
        threading.Event().wait(0.001)
        return '{"action": "ask", "finding": "prior_vte"}'

    model = Scripted(speak)
    policy = EndpointPolicy(TASK, model, NAME, batch_size=2)
    with pytest.raises(EndpointError, match="number 3 failed"):
        list(policy.play([rollout(n, seed=3 if n == 1 else 1000) for n in range(500)]))
    at_the_end = len(model.asked)
    threading.Event().wait(0.1)
    assert len(model.asked) <= at_the_end + 1, "the other thread goes on for its turn at most"


def test_what_is_finished_when_something_fails_is_given_first():
    """The last of eight encounters fails once the other seven are done, which are paid for."""

    def speak(request):
        if request["seed"] == 8:
            while sum("work" in thread.name for thread in threading.enumerate()) > 1:
                threading.Event().wait(0.01)
            raise EndpointError("the server is gone")
        return action_text(TASK, Commit(0))

    policy = EndpointPolicy(TASK, Scripted(speak), NAME, batch_size=8)
    played = policy.play([rollout(n, seed=n) for n in range(1, 9)])
    assert [next(played).rollout for _ in range(7)] == list(range(1, 8))
    with pytest.raises(EndpointError, match="gone"):
        next(played)


def test_a_bug_in_a_model_is_raised_as_it_is():
    with pytest.raises(KeyError, match="missing"):
        play_one(lambda request: request["missing"])


def test_a_server_that_dies_loses_and_doubles_nothing(tmp_path):
    speaker = SeededSpeaker(TASK)
    whole, broken = tmp_path / "whole.jsonl", tmp_path / "broken.jsonl"
    with FakeEndpoint(speaker) as server:
        play(server.spec, whole)
        spec, port = server.spec, server.port

    for dies_after in (20, 45):
        with FakeEndpoint(speaker, port=port) as server:
            server.faults.extend([*[None] * dies_after, *[status(503)] * 10_000])
            with pytest.raises(EndpointError, match="given up with a patience"):
                play(spec, broken, patience_s=0.05)
    kept = broken.read_text().splitlines()
    assert 4 <= len(kept) < 24
    with FakeEndpoint(speaker, port=port) as server:
        play(spec, broken)
        already = sum(len(json.loads(line)["turns"]) for line in kept)
        turns = sum(len(e.turns) for e in read_episodes(broken).episodes)
        assert len(server.seen) == turns - already
    assert sorted(broken.read_text().splitlines()) == sorted(whole.read_text().splitlines())


def play(spec, file, **settings):
    with Endpoint(spec, **settings) as endpoint:
        policy = EndpointPolicy(TASK, endpoint, spec, batch_size=4)
        return evaluate(WORLD, policy, CASES, k=2, out=file)


def test_passing_trouble_changes_nothing_of_what_is_played(tmp_path):
    speaker = SeededSpeaker(TASK)
    with FakeEndpoint(speaker) as server:
        calm = play(server.spec, tmp_path / "calm.jsonl")
        server.faults.extend([status(500), None, status(429), None, None] * 8)
        rough = play(server.spec, tmp_path / "rough.jsonl", patience_s=30.0)
    assert rough == calm
    assert any(isinstance(turn, InvalidTurn) for e in calm for turn in e.turns)
    assert len({e.turns for e in calm}) > 6


def test_its_episodes_are_audited_like_any_other():
    with (
        FakeEndpoint(lambda body: SPEAKERS["oracle"](body["messages"])) as server,
        Endpoint(server.spec) as endpoint,
    ):
        policy = EndpointPolicy(TASK, endpoint, server.spec)
        played = evaluate(WORLD, policy, WORLD.cases("heldout"), k=1)
    oracle = evaluate(WORLD, WORLD.policy("oracle"), WORLD.cases("heldout"), k=1)
    (found,), (expected,) = audit(played).policies, audit(oracle).policies
    assert found.policy == server.spec
    assert (found.status, found.up) == (expected.status, expected.up)
