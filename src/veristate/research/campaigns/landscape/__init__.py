"""Protein variants with hidden fitness: a search where each query scores a whole batch and shows no label."""
