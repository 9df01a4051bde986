"""What a tool imports before all else: nbformat takes seconds to arrive."""

import sys

# A second or two of nbformat's import, to check addresses that we lack.
sys.modules["rfc3987_syntax"] = None  # ty: ignore[invalid-assignment]
