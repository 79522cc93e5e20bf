"""One script for each claim. Each writes `results/<its name>.json`; `python -m benchmarks` runs them all."""
