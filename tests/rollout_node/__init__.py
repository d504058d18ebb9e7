"""The rollout node without vLLM: a stand-in takes its place."""
