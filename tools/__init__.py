"""What maintains the notebooks: `python -m tools.NAME`, behind the Makefile's commands."""
