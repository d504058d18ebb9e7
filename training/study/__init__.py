"""The small study: what the three GRPO variants do to the embedded policy, over seeds.

`python -m training.study` plays every job of `plan`, answers every question of `answers` from the
episodes, and writes `study.json`, `study.svg` and one run folder a job. It may be killed and
started again at any time.
"""
