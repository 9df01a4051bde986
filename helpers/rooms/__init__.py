"""What one lesson or room needs alone; the flat files of helpers/ import none of it."""
