"""The real server: one process trains, another serves; `make test-vllm` runs this folder."""
