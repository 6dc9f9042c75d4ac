"""The commands of the tool. What they share: options, output, and asking before a change."""

import signal


def run() -> None:
    """Run the ``rackward`` command and exit, as :func:`rackward.cli.main.main` does."""
    # Ctrl-C while modules are imported ends the process without a traceback; main() then sets
    # handlers that clean up.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    from rackward.cli.main import main

    main()
