"""What one room needs alone. Rooms import the flat files above them; no file up there imports a
room.
"""
