"""What a model of a known shape costs: parameters, LoRA parameters, accelerator memory."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from training.config import Config, Lora

_BYTES = {"float32": 4, "bfloat16": 2}
_GIB = 2**30


@dataclass(frozen=True, slots=True, kw_only=True)
class TextShape:
    """Shape of a Gemma 3 text model; the default is MedGemma-4B's.

    Every sixth layer attends to everything, the others to the last `sliding_window` tokens.
    """

    vocab: int = 262_208
    hidden: int = 2560
    layers: int = 34
    heads: int = 8
    kv_heads: int = 4
    head_dim: int = 256
    feed_forward: int = 10_240
    sliding_window: int = 1024

    @property
    def linear(self) -> dict[str, tuple[int, int]]:
        """(inputs, outputs) of the linear maps of one layer, by the names LoRA targets."""
        q, kv = self.heads * self.head_dim, self.kv_heads * self.head_dim
        return {
            "q_proj": (self.hidden, q),
            "k_proj": (self.hidden, kv),
            "v_proj": (self.hidden, kv),
            "o_proj": (q, self.hidden),
            "gate_proj": (self.hidden, self.feed_forward),
            "up_proj": (self.hidden, self.feed_forward),
            "down_proj": (self.feed_forward, self.hidden),
        }

    @property
    def parameters(self) -> int:
        """Embedding (tied to the head), linear maps, four norms and two head norms a layer, last.

        >>> TextShape().parameters
        3880263168
        """
        maps = sum(inputs * outputs for inputs, outputs in self.linear.values())
        norms = 4 * self.hidden + 2 * self.head_dim
        return self.vocab * self.hidden + self.layers * (maps + norms) + self.hidden

    def lora_parameters(self, lora: Lora) -> int:
        """Σ rank · (inputs + outputs) over the targeted maps of every layer.

        >>> TextShape().lora_parameters(Lora())
        29802496
        """
        return self.layers * lora.rank * sum(sum(self.linear[name]) for name in lora.targets)


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryPlan:
    """Bytes on one accelerator that plays and learns by turns.

    base: frozen weights. adapter: float32 weights, gradients and the two moments of AdamW.
    cache: keys and values of every dialogue at the context limit. activations: of one micro batch
    at the context limit. The cache is freed before learning, so that the larger of both counts.
    """

    base: int
    adapter: int
    cache: int
    activations: int

    @property
    def total(self) -> int:
        """The sum of base, adapter and the larger of cache and activations."""
        return self.base + self.adapter + max(self.cache, self.activations)

    def __str__(self) -> str:
        parts = asdict(self) | {"total": self.total}
        return ", ".join(f"{name} {size / _GIB:.1f} GiB" for name, size in parts.items())


def memory_plan(config: Config, shape: TextShape | None = None) -> MemoryPlan:
    """What a run of this configuration needs on one accelerator, at its limits.

        base        = parameters x 2 bytes (bfloat16)
        adapter     = LoRA parameters x 4 numbers x 4 bytes
        cache       = groups x rollouts x context x (2 x kv heads x head size x layers) x 2 bytes
        activations = micro batch x context x (layers x hidden + inside) x 2 bytes

    Inside counts what one layer keeps for its gradient, per token: about eight vectors of the
    hidden size, queries, keys and values twice, six vectors of the feed-forward size. With
    gradient checkpointing every layer keeps its input and one at a time has its inside; without
    it all keep it. Logits are made in chunks and do not count. An estimate: allow a fifth more.
    """
    size, unit = shape or TextShape(), _BYTES[config.model.dtype]
    optim, context = config.optim, config.limits.context_tokens
    heads = (size.heads + 2 * size.kv_heads) * size.head_dim
    inside = 8 * size.hidden + 2 * heads + 6 * size.feed_forward
    kept = size.layers * size.hidden + inside
    if not optim.gradient_checkpointing:
        kept = size.layers * inside
    per_token = 2 * size.kv_heads * size.head_dim * size.layers
    return MemoryPlan(
        base=size.parameters * unit,
        adapter=size.lora_parameters(config.lora) * 4 * 4,
        cache=optim.groups * optim.rollouts * context * per_token * unit,
        activations=optim.micro_batch * context * kept * unit,
    )
