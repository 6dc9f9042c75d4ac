"""What every test can rely on."""

from __future__ import annotations

import signal

from hypothesis import settings

# Machines that run tests are busy; what is too slow shows in the benchmarks. The same examples
# each time: a change is judged by what it changes. --hypothesis-profile fuzz looks for others.
settings.register_profile("rackward", deadline=None, derandomize=True)
settings.register_profile("fuzz", deadline=None, max_examples=2000)
settings.load_profile("rackward")

# A shell without job control starts what it puts into the background with Ctrl-C ignored,
# and so would be the processes that tests start in order to interrupt them.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
