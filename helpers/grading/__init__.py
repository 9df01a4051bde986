"""What judges: exercises and their graders, and the properties that must hold. Notebooks import it."""
