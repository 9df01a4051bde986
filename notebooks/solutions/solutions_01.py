"""One answer to each exercise of notebook 01. Yours may look different and be as good: the checks decide."""


def my_scores(queries, keys):
    # Counted from the end, the last two dimensions are a table, however many come before them.
    return queries @ keys.transpose(-2, -1)


def my_dot(length_a, length_b, length_sum):
    # |a + b|² = (a + b) · (a + b) = |a|² + 2 a · b + |b|²: solve for a · b.
    return (length_sum**2 - length_a**2 - length_b**2) / 2


def my_nearest(i, vectors):
    scores = vectors @ vectors[i]
    scores[i] = float("-inf")  # not 0, which would win where all other scores are negative
    return scores.argmax()


# 2 * 6 - 8 = 4, 2 * 1 + 0 = 2, 2 * 3 + 5 = 11 and 2 * -4 + 1 = -7.
my_order = "cabd"


def my_cosines(vectors):
    # Each row has its own length; keepdim=True keeps the lengths in a column, beside their rows.
    unit = vectors / vectors.norm(dim=1, keepdim=True)
    return unit @ unit.T
