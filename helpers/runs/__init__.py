"""A training that survives a stop: its folder, its checkpoint, the loop around core's updates, and the presets.

Studies, widgets, commands and notebooks import it.
"""
