"""For teachers: hand the lessons out without solutions, and grade what comes back."""
