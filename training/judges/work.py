"""Many questions at once: requests wait for servers, so threads do."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import TypeVar

T = TypeVar("T")

Tell = Callable[[int, int], None]
"""Hears how many jobs are done, of how many."""

WORKERS = 8


def work(
    jobs: Sequence[Callable[[], T]],
    *,
    workers: int = WORKERS,
    tell: Tell | None = None,
) -> list[T]:
    """The result of every job, in order.

    The first error ends the rest: jobs that wait are dropped, those that run are left to end.
    """
    pool = ThreadPoolExecutor(max_workers=workers)
    try:
        futures = [pool.submit(job) for job in jobs]
        for done, future in enumerate(as_completed(futures), start=1):
            future.result()
            if tell:
                tell(done, len(jobs))
        return [future.result() for future in futures]
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
