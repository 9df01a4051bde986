"""Notebook 11: a small GPT with its training and its writing, real faults for its parts, and checks that see them."""
