"""Audits of a training reward from plain records of any run: what it pays for, and who games it.

`read_log` reads the records, `audit_reward` turns them into findings. No model, no torch.
"""
