"""veristate lets a research agent's work be acted on: checked, kept, certified, committed once."""

__version__ = "0.1.0.dev0"
