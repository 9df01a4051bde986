"""What all rooms need and no reader needs first: errors, files written whole, what a terminal reads. It imports none."""
