"""What outgrows one machine: a training in several processes, and corpora larger than memory.

Writing, world, runs and commands import it.
"""
