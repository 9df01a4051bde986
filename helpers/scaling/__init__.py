"""One training in several processes, on one machine or on many. The engine is PyTorch's; here it is handed the work.

Runs and commands import it.
"""
