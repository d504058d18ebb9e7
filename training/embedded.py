"""The embedded policy: a tiny Gemma 3 built from scratch, for the protocol of the shipped tasks.

It is the real `Gemma3ForCausalLM` with the stock chat template and a small tokenizer: byte-level
BPE on the protocol's own text, and one token for each id, JSON frame and line of a prompt. It
cannot read ids out of a prompt line; everything else is the protocol MedGemma speaks. Weights are
drawn from a seed and saved as safetensors; none are shipped.

An evidence world has a tokenizer of its own, with the words of that world in the place of those of
the protocol (`training.world_words`).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from clinical_envs.belief import initial_state
from clinical_envs.catalog import load_task, task_ids
from clinical_envs.protocol import REASONS, prompt
from clinical_envs.task import Task

PAD, EOS, BOS, UNK = "<pad>", "<eos>", "<bos>", "<unk>"
START, END = "<start_of_turn>", "<end_of_turn>"
MODES = ("Mode: explore.", "Mode: exploit.")
_CHAT = ("user\n", "model\n", "\n")


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbeddedSize:
    """Shape of the tiny Gemma 3; the default has 0.4 M parameters."""

    hidden: int = 96
    layers: int = 3
    heads: int = 4
    kv_heads: int = 2
    head_dim: int = 32
    feed_forward: int = 256
    context: int = 2048
    initializer_range: float = 0.06
    bpe_vocab: int = 300


def build_tokenizer(size: EmbeddedSize | None = None, words: Sequence[str] | None = None) -> Any:
    """The tokenizer, the same for the same text.

    words: what is one token each, beside the frame of the chat; None for the clinical protocol.
    """
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    corpus, tokens = _protocol() if words is None else (words, (*words, *_CHAT))
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=(size or EmbeddedSize()).bpe_vocab,
        special_tokens=[PAD, EOS, BOS, UNK, START, END],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(corpus, trainer)
    tokenizer.add_tokens(
        [AddedToken(token, normalized=False, special=False) for token in dict.fromkeys(tokens)]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token=PAD,
        eos_token=EOS,
        bos_token=BOS,
        unk_token=UNK,
        additional_special_tokens=[START, END],
        chat_template=_stock_template(),
        clean_up_tokenization_spaces=False,
    )


def build_model(tokenizer: Any, seed: int, size: EmbeddedSize | None = None) -> Any:
    """A randomly initialised model, deterministic from the seed."""
    import torch
    from transformers import Gemma3ForCausalLM, Gemma3TextConfig

    shape = size or EmbeddedSize()
    config = Gemma3TextConfig(
        vocab_size=len(tokenizer),
        hidden_size=shape.hidden,
        intermediate_size=shape.feed_forward,
        num_hidden_layers=shape.layers,
        num_attention_heads=shape.heads,
        num_key_value_heads=shape.kv_heads,
        head_dim=shape.head_dim,
        query_pre_attn_scalar=shape.head_dim,
        max_position_embeddings=shape.context,
        layer_types=["full_attention"] * shape.layers,
        initializer_range=shape.initializer_range,
        pad_token_id=tokenizer.pad_token_id,
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=[tokenizer.eos_token_id, tokenizer.convert_tokens_to_ids(END)],
        attn_implementation="sdpa",
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = Gemma3ForCausalLM(config)
    return model.eval()


def save_embedded(folder: str | Path, seed: int, size: EmbeddedSize | None = None) -> Path:
    """Write a fresh embedded policy as a checkpoint folder; returns it."""
    path = Path(folder)
    tokenizer = build_tokenizer(size)
    build_model(tokenizer, seed, size).save_pretrained(path, safe_serialization=True)
    tokenizer.save_pretrained(path)
    return path


def menu_words(task: Task) -> tuple[str, ...]:
    """The words of a task in the protocol of findings."""
    return (*_prompt_lines(task), *_frames(task))


def _protocol() -> tuple[Sequence[str], Sequence[str]]:
    """What the shipped clinical tasks say: lines to learn bytes from, and the tokens."""
    tasks = [load_task(name) for name in task_ids()]
    lines = [line for task in tasks for line in _prompt_lines(task)]
    frames = [text for task in tasks for text in _frames(task)]
    return lines, [*lines, *frames, *MODES]


def _prompt_lines(task: Task) -> Iterator[str]:
    for family in range(len(task.families)):
        yield from prompt(task, initial_state(task, family)).splitlines()


def _frames(task: Task) -> Iterator[str]:
    """Every fixed piece of an action or a reply, and every id."""
    yield from ('{"action": "ask", "finding": "', '{"action": "commit", "decision": "', '"}')
    yield from ('{"finding": "', '", "answer": "', '", "turns_left": ', "}", "yes", "no")
    yield from ('{"error": "', '{"action": "stop"}', *_CHAT)
    yield from (str(turns) for turns in range(task.turn_cap + 1))
    yield from (*task.finding_ids, *task.decision_ids, *task.family_ids)
    yield from (json.dumps(reason)[1:-1] for reason in REASONS)


def _stock_template() -> str:
    return (resources.files("trl") / "chat_templates" / "gemma3.jinja").read_text(encoding="utf-8")
