"""``rackward traffic``: cross-rack traffic, its cost, and what would reduce it."""

from rackward.cli.commands import command_group
from rackward.cli.traffic.collect import COLLECT_EPILOG, COLLECT_RESULTS, collect, flows_app
from rackward.cli.traffic.pipeline import (
    RUN_EPILOG,
    STREAM_EPILOG,
    WHAT_IF_EPILOG,
    run,
    stream,
    what_if,
)
from rackward.cli.traffic.report import REPORT_EPILOG, report

app = command_group("Measure cross-rack traffic and its cost, and compute what would reduce it.")
app.command(epilog=COLLECT_EPILOG, results=COLLECT_RESULTS)(collect)
app.command(epilog=RUN_EPILOG)(run)
app.command("what-if", epilog=WHAT_IF_EPILOG)(what_if)
app.command(epilog=STREAM_EPILOG)(stream)
app.command(epilog=REPORT_EPILOG)(report)
app.add_typer(flows_app, name="flows")
