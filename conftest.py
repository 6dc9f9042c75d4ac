"""What every test can rely on."""

from __future__ import annotations

import signal

from hypothesis import settings

# Machines that run tests are busy; what is too slow shows in the benchmarks.
settings.register_profile("rackward", deadline=None)
settings.load_profile("rackward")

# A shell without job control starts what it puts into the background with Ctrl-C ignored,
# and so would be the processes that tests start in order to interrupt them.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
