"""Dialogues as token ids, and the embedded policy that speaks them."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clinical_envs.catalog import load_task, task_ids
from clinical_envs.errors import InvalidArgument
from clinical_envs.protocol import Dialogue, Message, action_text
from clinical_envs.simulator import Ask, Commit, Encounter, Invalid
from clinical_envs.task import Task
from oracles.clinical import ClinicalWorld
from tests.strategies import Play, play_of
from tests.training.toy import NEEDS, chat, fresh_model, tokenizer
from training.chat import ChatTokens
from training.embedded import MODES, EmbeddedSize, build_tokenizer, save_embedded

torch = pytest.importorskip("torch", reason=NEEDS)
transformers = pytest.importorskip("transformers", reason=NEEDS)
pytest.importorskip("trl", reason=NEEDS)

TASKS = [load_task(name) for name in task_ids()]
NAMES = [task.name for task in TASKS]
GARBAGE = st.sampled_from(["", "no", '{"action": "ask"}', "I'd ask: fièvre?", "{]", "a\n\nb"])
FRESH = """
import sys
from tests.training.test_chat import fingerprint
print(fingerprint(int(sys.argv[1])))
"""


def whole_ids(messages: list[Message]) -> list[int]:
    """The template's rendering of a dialogue, tokenised at once, up to its last token that counts.

    After a last policy turn the template adds a line end that nobody samples.
    """
    over = messages[-1]["role"] == "assistant"
    text = tokenizer().apply_chat_template(messages, tokenize=False, add_generation_prompt=not over)
    ids: list[int] = tokenizer()(text, add_special_tokens=False)["input_ids"]
    return ids[: len(ids) - ids[::-1].index(chat().end_of_turn)] if over else ids


def glued_ids(messages: list[Message]) -> list[int]:
    """The same dialogue from its pieces."""
    first, *rest = (message["content"] for message in messages)
    ids = list(chat().prompt(first))
    for position, text in enumerate(rest):
        ids += chat().turn(text) if position % 2 == 0 else chat().reply(text)
    return ids


def messages_of(play: Play, garbage: str) -> list[Message]:
    dialogue = Dialogue(Encounter(play.task, play.case))
    for action in play.actions:
        dialogue.play(action, garbage if isinstance(action, Invalid) else None)
    return dialogue.messages


@pytest.mark.parametrize("task", TASKS, ids=NAMES)
@given(data=st.data())
def test_a_dialogue_from_pieces_is_the_rendered_dialogue_tokenised(
    task: Task, data: st.DataObject
) -> None:
    messages = messages_of(data.draw(play_of(task)), data.draw(GARBAGE))
    assert glued_ids(messages) == whole_ids(messages)
    assert glued_ids(messages[:-1]) == whole_ids(messages[:-1])


@pytest.mark.parametrize("task", TASKS, ids=NAMES)
def test_an_action_is_at_most_a_dozen_tokens_and_reads_back(task: Task) -> None:
    actions: list[Ask | Commit] = [Ask(q) for q in range(len(task.findings))]
    actions += [Commit(a) for a in range(len(task.decisions))]
    for action in actions:
        text = action_text(task, action)
        ids = list(chat().turn(text))
        assert len(ids) <= 12
        assert chat().text(ids) == text


def test_an_oracle_encounter_of_diagnostics_is_at_most_300_tokens() -> None:
    world = ClinicalWorld(load_task("diagnostics"))
    lengths = []
    for case in world.cases("heldout"):
        dialogue = Dialogue(Encounter(world.task, case))
        while not dialogue.encounter.over:
            dialogue.play(world.oracle.act(dialogue.encounter.info))
        lengths.append(len(glued_ids(dialogue.messages)))
    assert max(lengths) <= 300
    assert min(lengths) > len(chat().prompt(dialogue.messages[0]["content"]))


@pytest.mark.parametrize("line", MODES)
def test_a_mode_line_is_one_token(line: str) -> None:
    assert len(tokenizer()(line, add_special_tokens=False)["input_ids"]) == 1


@given(st.text())
def test_any_text_can_be_encoded_and_read_back(text: str) -> None:
    ids = tokenizer()(text, add_special_tokens=False)["input_ids"]
    assert chat().text(ids) == text
    assert tokenizer().unk_token_id not in ids


@given(st.text(alphabet="é°ïß€", min_size=1))
def test_letters_beyond_ascii_can_be_encoded_and_read_back(text: str) -> None:
    assert chat().text(list(chat().turn(text))) == text


def test_the_end_of_a_turn_is_gemmas_and_ends_generation() -> None:
    end = tokenizer().convert_tokens_to_ids("<end_of_turn>")
    assert chat().end_of_turn == end
    assert end in fresh_model().generation_config.eos_token_id


def test_a_template_whose_turns_have_no_end_token_is_refused() -> None:
    plain = build_tokenizer()
    plain.chat_template = "{% for m in messages %}{{ m.content }} and then {% endfor %}"
    with pytest.raises(InvalidArgument, match="no special token") as caught:
        ChatTokens(plain)
    assert "\n" not in str(caught.value)


def fingerprint(seed: int) -> str:
    """Hash of the tokenizer's bytes and of every weight."""
    digest = hashlib.sha256(build_tokenizer().backend_tokenizer.to_str().encode())
    model = fresh_model(seed, EmbeddedSize())
    for name, weight in sorted(model.state_dict().items()):
        digest.update(name.encode() + weight.numpy().tobytes())
    return digest.hexdigest()


def test_the_policy_is_the_same_in_another_process_and_differs_between_seeds() -> None:
    environment = os.environ | {"PYTHONHASHSEED": "7", "PYTHONPATH": os.getcwd()}
    done = subprocess.run(
        [sys.executable, "-c", FRESH, "3"], env=environment, capture_output=True, text=True
    )
    assert done.stdout.split() == [fingerprint(3)], done.stderr
    assert fingerprint(3) != fingerprint(4)


def test_building_a_model_leaves_the_global_generator_alone() -> None:
    before = torch.get_rng_state()
    fresh_model(5)
    assert torch.equal(before, torch.get_rng_state())


def test_a_saved_policy_is_safetensors_and_loads_as_a_gemma(tmp_path: Path) -> None:
    folder = save_embedded(tmp_path / "policy", 3)
    assert (folder / "model.safetensors").is_file()
    loaded: Any = transformers.AutoModelForCausalLM.from_pretrained(folder)
    assert isinstance(loaded, transformers.Gemma3ForCausalLM)
    expected = fresh_model(3, EmbeddedSize()).state_dict()
    assert all(torch.equal(weight, expected[name]) for name, weight in loaded.state_dict().items())
    read = transformers.AutoTokenizer.from_pretrained(folder)
    assert ChatTokens(read).prompt("a\nb") == chat().prompt("a\nb")
