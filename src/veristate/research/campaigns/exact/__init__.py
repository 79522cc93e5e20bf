"""Evaluators and audits in exact rational arithmetic: they read a candidate as text, and need nothing but Python."""
