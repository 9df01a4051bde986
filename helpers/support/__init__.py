"""What all rooms need and no reader needs first: errors, files written whole, what a terminal reads.

All rooms may import it; it imports none.
"""
