"""What `python -m helpers.training`, `helpers.sampling` and `python -m helpers.gpt2` call. Only the doors import it."""
