"""What one room of the lessons needs alone."""
