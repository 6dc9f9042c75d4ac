"""What all tests share, whoever starts them."""

from __future__ import annotations

import signal


def pytest_configure() -> None:
    """Take Ctrl-C again where a shell had it ignored, as shells do for what they start behind.

    Processes that tests start would inherit that, and tests that interrupt them would wait
    for nothing.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
