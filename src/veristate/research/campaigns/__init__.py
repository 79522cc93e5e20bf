"""The bundled campaigns: task folders, their exact evaluators, solvers, and workers that need no model.

A folder with a `task.toml` is a campaign; `veristate research run NAME` finds it by its name, `_` as `-`.
"""
