"""What the notebooks use, in rooms: CONTRIBUTING has the map, and core is where to start reading."""

import os
import signal
import sys


def _stop(number: int, frame: object) -> None:
    name = "Ctrl-C" if number == signal.SIGINT else signal.Signals(number).name
    # torchrun sends SIGTERM to all when one has ended and said why, and Ctrl-C reaches all: then one speaks.
    of_several = "TORCHELASTIC_RUN_ID" in os.environ
    if not of_several or (number == signal.SIGINT and os.environ.get("RANK") == "0"):
        os.write(2, f"stopped by {name}: nothing has begun\n".encode())
    os._exit(128 + number)


# `python -m helpers.training` and its like: PyTorch takes seconds to arrive, and until the command can speak for itself
# (helpers/support/console.py), whoever stops it should read a sentence, too, and no traceback. So it is with tools/.
if sys.argv[:1] == ["-m"] or os.path.basename(os.path.dirname(sys.argv[0])) == "tools":
    for _name in ("SIGINT", "SIGTERM", "SIGHUP"):  # Windows has no SIGHUP
        _number = getattr(signal, _name, None)
        if _number is not None and signal.getsignal(_number) != signal.SIG_IGN:
            signal.signal(_number, _stop)
