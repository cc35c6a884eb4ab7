"""Benchmarks: every figure with its ratio to a peer or a physical limit of the same run."""
