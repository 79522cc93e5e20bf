"""Tours of lunar orbits (the KTTSP format): instances, Lambert's problem, scores, and a search for tours."""
