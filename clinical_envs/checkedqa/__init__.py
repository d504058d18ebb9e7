"""Checked question answering: claims, checkers, the rewards they multiply and how those are gamed.

Model-free parts of the setting of arXiv 2605.25988, whose published summary leaves the multiplier
and the hyperparameters open; what is decided here is marked as ours.
"""
