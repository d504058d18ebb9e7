"""Diagnostics with all 18 findings informative in one family: the large exact instance."""

from __future__ import annotations

from clinical_envs import Task, load_task


def all_informative() -> Task:
    """Chest rows, and abdominal rows where chest carries no information."""
    data = load_task("diagnostics").model_dump(mode="json")
    for finding in data["findings"]:
        chest, abdominal = finding["p"]["chest"], finding["p"]["abdominal"]
        finding["p"] = {"chest": chest if len(set(chest)) > 1 else abdominal}
    data |= {"id": "Eighteen-v0", "name": "eighteen", "families": data["families"][:1]}
    return Task.model_validate(data | {"high_acuity": {}, "checklist": {}})
