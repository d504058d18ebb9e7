from __future__ import annotations

import json
import shutil

import pytest

pytest.importorskip("trl", reason="pip install 'clinical-envs[train]'")

from safetensors.torch import load_file

from training.checkpoint_policy import PlaySettings, read_settings
from training.runs import read_rows, read_run

pytestmark = pytest.mark.filterwarnings(
    "ignore::FutureWarning", "ignore::DeprecationWarning", "ignore:.*pin_memory.*:UserWarning"
)


def test_a_warmup_is_a_checkpoint_and_a_run_folder(warmup):
    data = read_run(warmup.folder)
    assert (data["kind"], data["status"]) == ("sft", "finished")
    assert data["config_hash"] == warmup.config.hash
    assert read_settings(warmup.folder) == PlaySettings(turn_tokens=12, context_tokens=512)
    losses = [row["loss"] for row in read_rows(warmup.folder / "metrics.jsonl")]
    assert losses == sorted(losses, reverse=True)
    card = (warmup.folder / "README.md").read_text()
    assert "imitates an imperfect teacher" in card
    assert "not fit for patient care" in card


def test_a_stopped_warmup_goes_on_and_ends_with_the_same_weights(warmup, tmp_path):
    from training.sft import warm_up

    folder = tmp_path / "stopped"
    shutil.copytree(warmup.folder, folder)
    shutil.rmtree(folder / "checkpoints" / "checkpoint-25")
    (folder / "checkpoints" / "checkpoint-24").mkdir()  # a kill in the middle of saving
    (folder / "model.safetensors").unlink()
    data = read_run(folder) | {"status": "training"}
    (folder / "run.json").write_text(json.dumps(data))
    warm_up(warmup.config, folder)
    ours, theirs = (load_file(at / "model.safetensors") for at in (folder, warmup.folder))
    assert set(ours) == set(theirs)
    for name, weights in theirs.items():
        assert ours[name].numpy() == pytest.approx(weights.numpy(), abs=1e-4), name
    assert [row["step"] for row in read_rows(folder / "metrics.jsonl")] == [10, 20]
    assert len(read_run(folder)["sessions_s"]) == 2


def test_a_finished_warmup_is_not_trained_again(warmup):
    from training.sft import warm_up

    before = (warmup.folder / "model.safetensors").stat().st_mtime_ns
    assert warm_up(warmup.config, warmup.folder) == warmup.folder
    assert (warmup.folder / "model.safetensors").stat().st_mtime_ns == before
