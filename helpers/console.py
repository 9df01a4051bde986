"""What a command says to a person: tables."""

from collections.abc import Sequence


def table(header: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Text columns under a header, words to the left, numbers to the right."""
    cells = [[f"{cell:,}" if isinstance(cell, int) else str(cell) for cell in line] for line in [header, *rows]]
    widths = [max(len(line[i]) for line in cells) for i in range(len(header))]
    right = [bool(rows) and isinstance(rows[0][i], (int, float)) for i in range(len(header))]
    for line in cells:
        line[:] = [c.rjust(w) if r else c.ljust(w) for c, w, r in zip(line, widths, right, strict=True)]
    return "\n".join("  ".join(line).rstrip() for line in cells)
