"""For teachers: `student` hands the lessons out without solutions, `grade` judges what comes back."""
