"""A course from the lessons: `make student` hands them out, `make grade` judges what comes back.

The exercises, their order and their graders are those of helpers/grading; their names, kinds and points (one for each
star of difficulty) stand in the lessons. Nothing is listed here a second time.

nbgrader keeps the books: assignments, the gradebook, pages with feedback. It doesn't run what students hand in. Its own
way is to run the whole notebook in one kernel and to believe what the checks print there; a lesson trains for minutes,
and a student can write a check that prints "right". Here a submission gives away only the source of its answers
(`slicing`). They are defined in a process of their own, with limits and, where the system allows it, without network
and without a place to write to (`jail`, `answering`); the grader sits outside and asks them (`judging`). Numbers and
tensors cross over, and no code comes back (`plain`). nbgrader gets notebooks in which the verdicts already stand, and
reads the points from them (`course`).
"""
