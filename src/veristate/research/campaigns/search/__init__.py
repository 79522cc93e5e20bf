"""Searches for point sets and circle packings: one local solver and one way of hopping, four problems."""
