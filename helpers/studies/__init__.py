"""Many trainings and what they show: studies, tables of runs, verdicts. Notebooks 07 to 12 and tools import it."""
