"""``rackward traffic``: what crosses racks, what it costs, and what would change it."""

import typer

from rackward.cli.traffic.collect import COLLECT_EPILOG, collect
from rackward.cli.traffic.report import epilog, report
from rackward.cli.traffic.run import RUN_EPILOG, WHAT_IF_EPILOG, run, what_if
from rackward.cli.traffic.stream import STREAM_EPILOG, stream

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    help="See what crosses racks, what it costs, and what would change it.",
)
app.command(epilog=COLLECT_EPILOG)(collect)
app.command(epilog=RUN_EPILOG)(run)
app.command("what-if", epilog=WHAT_IF_EPILOG)(what_if)
app.command(epilog=STREAM_EPILOG)(stream)
app.command(epilog=epilog())(report)
