"""Tests of the core: tasks, cases, belief, simulator, episodes, verifier, protocol."""
