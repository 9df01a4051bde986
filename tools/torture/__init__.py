"""A machine that tries to break the trainer: `make torture`, or `python -m tools.torture --quick`."""
