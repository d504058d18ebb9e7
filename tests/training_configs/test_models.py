"""Loading: text only, no weight left random, and errors that say what to do."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from clinical_envs.errors import InvalidArgument, require
from tests.training.toy import NEEDS
from tests.training_configs import tiny_gemma
from training.config import config_from, load_config

torch = pytest.importorskip("torch", reason=NEEDS)
pytest.importorskip("peft", reason=NEEDS)
from training.models import export_text, load_policy, lora_config, refuse_random  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning")  # PEFT uses old names
HUB_ID = "google/medgemma-4b-it"


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any]:
    folder = tmp_path_factory.mktemp("multimodal")
    return folder, tiny_gemma.save(folder)


@pytest.fixture
def folder(whole: tuple[Path, Any], tmp_path: Path) -> Path:
    return Path(shutil.copytree(whole[0], tmp_path / "copy"))


def logits(model: Any) -> Any:
    ids = torch.arange(40).reshape(2, 20)
    with torch.no_grad():
        return model(input_ids=ids).logits


def test_the_text_model_of_a_multimodal_checkpoint_gives_the_same_logits(
    whole: tuple[Path, Any],
) -> None:
    policy, tokenizer = load_policy(whole[0])
    assert type(policy).__name__ == "Gemma3ForCausalLM"
    assert torch.equal(logits(policy), logits(whole[1]))
    assert not [name for name, _ in policy.named_parameters() if "vision" in name]
    assert len(tokenizer) == policy.config.vocab_size


def test_the_newer_names_of_the_same_weights_are_read_too(
    whole: tuple[Path, Any], folder: Path
) -> None:
    renamed = {
        "language_model.model.": "model.language_model.",
        "vision_tower.": "model.vision_tower.",
        "multi_modal_projector.": "model.multi_modal_projector.",
    }
    tiny_gemma.rename_keys(folder, renamed)
    assert torch.equal(logits(load_policy(folder)[0]), logits(whole[1]))


def test_a_checkpoint_without_a_weight_is_refused(folder: Path) -> None:
    tiny_gemma.rename_keys(folder, {"language_model.model.layers.1.mlp.up_proj": ""})
    with pytest.raises(InvalidArgument, match=r"1 weights.*layers\.1\.mlp\.up_proj.*random"):
        load_policy(folder)


def test_the_plain_way_leaves_weights_random_and_is_refused(whole: tuple[Path, Any]) -> None:
    from transformers import Gemma3ForCausalLM

    plain, report = Gemma3ForCausalLM.from_pretrained(
        whole[0], config=whole[1].config.text_config, output_loading_info=True
    )
    assert not torch.allclose(logits(plain), logits(whole[1]), atol=1e-2)
    with pytest.raises(InvalidArgument, match="would stay random"):
        refuse_random(whole[0], report["missing_keys"])


def test_a_text_checkpoint_that_holds_multimodal_weights_is_refused(
    whole: tuple[Path, Any], folder: Path
) -> None:
    whole[1].config.text_config.save_pretrained(folder)
    with pytest.raises(InvalidArgument, match=r"config\.json belongs to its weights"):
        load_policy(folder)


def test_the_export_is_the_text_model_in_bfloat16(whole: tuple[Path, Any], tmp_path: Path) -> None:
    exported = export_text(whole[0], tmp_path / "text")
    policy, _ = load_policy(exported, "bfloat16")
    expected, _ = load_policy(whole[0], "bfloat16")
    assert policy.config.model_type == "gemma3_text"
    assert torch.equal(logits(policy), logits(expected))
    assert {p.dtype for p in policy.parameters()} == {torch.bfloat16}


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_frozen_weights_have_the_dtype_of_the_configuration_and_adapters_are_float32(
    whole: tuple[Path, Any], dtype: str
) -> None:
    from peft import get_peft_model

    config = load_config("titration-outcome-medgemma-4b")
    model = get_peft_model(load_policy(whole[0], dtype)[0], lora_config(config))
    frozen = {p.dtype for p in model.parameters() if not p.requires_grad}
    adapter = {p.dtype for p in model.parameters() if p.requires_grad}
    assert frozen == {getattr(torch, dtype)}
    assert adapter == {torch.float32}
    assert torch.isfinite(logits(model)).all()


def test_adapters_sit_on_every_linear_map_of_the_text_model_and_nowhere_else(
    whole: tuple[Path, Any],
) -> None:
    from peft import get_peft_model

    config = load_config("titration-outcome-medgemma-4b")
    model = get_peft_model(load_policy(whole[0])[0], lora_config(config))
    trained = {
        name.split(".lora_")[0].removeprefix("base_model.model.")
        for name, parameter in model.named_parameters()
        if parameter.requires_grad
    }
    layers = range(tiny_gemma.TEXT["num_hidden_layers"])
    attention = {f"model.layers.{i}.self_attn.{m}_proj" for i in layers for m in "qkvo"}
    mlp = {f"model.layers.{i}.mlp.{m}_proj" for i in layers for m in ("gate", "up", "down")}
    assert trained == attention | mlp


def test_targets_can_be_fewer(whole: tuple[Path, Any]) -> None:
    from peft import get_peft_model

    config = config_from(
        {"task": "titration", "warmup": {"kind": "full"}, "lora": {"targets": ["q_proj"]}}
    )
    model = get_peft_model(load_policy(whole[0])[0], lora_config(config))
    names = [name for name, parameter in model.named_parameters() if parameter.requires_grad]
    assert all("q_proj" in name for name in names)
    assert len(names) == 2 * tiny_gemma.TEXT["num_hidden_layers"]


def _refuses(monkeypatch: pytest.MonkeyPatch, error: Exception) -> str:
    """What is said when the hub answers with this error, through the library's own wrapping."""
    import transformers.utils.hub

    def refuse(*_: Any, **__: Any) -> str:
        raise error

    monkeypatch.setattr(transformers.utils.hub, "hf_hub_download", refuse)
    with pytest.raises(InvalidArgument) as caught:
        load_policy(HUB_ID)
    message = str(caught.value)
    assert "\n" not in message
    return message


def _answer(kind: str, status: int) -> Exception:
    httpx2, errors = require("httpx2", "train"), require("huggingface_hub.errors", "train")
    request = httpx2.Request("GET", f"https://huggingface.co/{HUB_ID}/resolve/main/config.json")
    response = httpx2.Response(status, request=request)
    error: Exception = getattr(errors, kind)("refused", response=response)
    return error


def test_a_gated_model_says_which_terms_to_accept_and_what_to_set(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    message = _refuses(monkeypatch, _answer("GatedRepoError", 403))
    assert f"{HUB_ID} is gated" in message
    assert f"https://huggingface.co/{HUB_ID}" in message
    assert "HF_TOKEN" in message


def test_an_unknown_model_is_not_called_gated(monkeypatch: pytest.MonkeyPatch) -> None:
    message = _refuses(monkeypatch, _answer("RepositoryNotFoundError", 404))
    assert "is gated" not in message
    assert "check the spelling" in message


def test_without_a_network_the_folder_to_bring_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(require("huggingface_hub.constants", "train"), "HF_HUB_OFFLINE", True)
    with pytest.raises(InvalidArgument, match=f"hf download {HUB_ID} --local-dir FOLDER"):
        load_policy(HUB_ID)


def test_an_error_of_the_disk_is_told_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    message = _refuses(monkeypatch, OSError("no space left on device"))
    assert "no space left on device" in message
    assert "gated" not in message


@pytest.mark.parametrize(("groups", "processes"), [(8, 7), (8, 6), (4, 3), (1, 16)])
def test_a_batch_that_the_processes_cannot_share_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, groups: int, processes: int
) -> None:
    grpo = pytest.importorskip("training.grpo", reason=NEEDS)
    monkeypatch.setenv("WORLD_SIZE", str(processes))
    config = load_config("diagnostics-outcome-medgemma-4b", [f"optim.groups={groups}"])
    with pytest.raises(InvalidArgument, match=f"{8 * groups} and cannot be divided"):
        grpo._arguments(config, tmp_path)


def test_a_folder_that_does_not_exist_is_not_looked_for_on_the_hub(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match="lost does not exist; give a checkpoint folder"):
        load_policy(tmp_path / "lost")


def test_a_folder_that_is_no_checkpoint_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match="give a checkpoint folder or a hub id"):
        load_policy(tmp_path)
