"""The parts of the claim that a pass is certified for a few percent of its cost."""
