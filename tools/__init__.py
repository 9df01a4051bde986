"""What maintains the notebooks, and the commands behind the Makefile: `python -m tools.NAME` at the
project's root.
"""

import sys

# A second of nbformat's import, to check addresses that notebooks lack.
sys.modules["rfc3987_syntax"] = None  # ty: ignore[invalid-assignment]
