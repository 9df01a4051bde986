"""Cases in stages. What is wrong at an easy stage is judged by it alone: later cases would only blur the mistake."""

from exercises import compare
from exercises.judge import Case, Pairs


def then(first: Pairs, second: Pairs) -> Pairs:
    """The second cases only for who is right in all of the first ones."""
    right = True
    for pair in first:
        yield pair
        given, wanted, *tolerance = pair
        right = right and not Case(given, wanted, *map(compare.near, tolerance)).fault
    if right:
        yield from second
