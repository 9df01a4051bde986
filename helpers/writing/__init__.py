"""The same text as core's `generate` writes, sooner: for the commands. It teaches nothing that core doesn't.

Commands and tools import it.
"""
