"""Side-by-side ratios, one command: python -m benchmarks."""
