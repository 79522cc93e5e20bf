"""Many passes of one case: series for studies and benchmarks, and the calibration of epsilon."""
