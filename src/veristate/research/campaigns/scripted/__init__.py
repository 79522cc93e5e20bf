"""The workers that need no model: scripts that really search. None of them is given a published construction."""
