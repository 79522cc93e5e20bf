"""Holding what a campaign runs: a keeper for each process tree, and bubblewrap around it where it is present.

`confining` is imported by its full name; this package itself imports nothing, for keepers start often.
"""
