"""The processes in which a task's Python functions run. They start often, so they import neither store nor ledger."""
