"""What `python -m helpers.training`, `helpers.sampling` and `make gpt2` call. Only the doors import it."""
