"""What one room needs alone; the flat files of helpers/ import none of it."""
