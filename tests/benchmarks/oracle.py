"""Oracle: time and memory, each in a fresh process."""

from __future__ import annotations

from collections.abc import Iterator

from tests.benchmarks.record import Figure, at_most, in_fresh_process

_SHIPPED = """
import json, resource, time
from clinical_envs import load_task, task_ids
from oracles import Oracle
tasks = [load_task(name) for name in task_ids()]
took = {}
for task in tasks:
    start = time.perf_counter()
    Oracle(task).optimal_value
    took[task.name] = time.perf_counter() - start
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
print(json.dumps({"took": took, "peak_mib": peak}))
"""

_EIGHTEEN = """
import json, resource, time
from tests.benchmarks.eighteen import all_informative
from oracles import Oracle
task = all_informative()
start = time.perf_counter()
value = Oracle(task).optimal_value
took = time.perf_counter() - start
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
print(json.dumps({"took": took, "peak_gib": peak, "value": value}))
"""


def figures() -> Iterator[Figure]:
    shipped = in_fresh_process(_SHIPPED)
    took = shipped["took"]
    each = ", ".join(f"{name} {time:.3f}" for name, time in took.items())
    yield at_most("oracle_diagnostics_s", took["diagnostics"], "s", 0.5, "every turn budget, cold")
    yield at_most("oracle_all_s", sum(took.values()), "s", 0.8, each)
    yield at_most("oracle_peak_mb", shipped["peak_mib"], "MiB", 400, "peak of the whole process")
    eighteen = in_fresh_process(_EIGHTEEN)
    detail = f"exact, V* = {eighteen['value']:.6f}, 18 findings, 12 turns, one family"
    yield at_most("oracle_18_s", eighteen["took"], "s", 120, detail)
    yield at_most("oracle_18_gib", eighteen["peak_gib"], "GiB", 6, "peak of the whole process")
