"""What a run is carried out with: executors, the folder that survives, recomputation, time and memory."""
