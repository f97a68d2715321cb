"""Prompt templates for the LLM operators (none yet: the search needs no LLM)."""
