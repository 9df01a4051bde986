"""What maintains the notebooks: `python -m tools.NAME`, behind the Makefile's commands."""

import sys

# A second of nbformat's import, to check addresses that notebooks lack.
sys.modules["rfc3987_syntax"] = None  # ty: ignore[invalid-assignment]
