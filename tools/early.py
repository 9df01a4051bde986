"""What a tool imports before all else: PyTorch and nbformat take seconds to arrive."""

import sys

import helpers  # noqa: F401  (from here on, who stops the tool reads a sentence, and no traceback)

# A second or two of nbformat's import, to check addresses that we lack.
sys.modules["rfc3987_syntax"] = None  # ty: ignore[invalid-assignment]
