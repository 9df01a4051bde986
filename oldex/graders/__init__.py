"""The graders of the exercises, one module per notebook."""
