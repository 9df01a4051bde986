"""Many trainings and what they show: variants, the ladder, verdicts. Notebooks 08, 10 and 12 and tools import it."""
