"""``rackward groups``: locality of consumer groups."""

from rackward.cli.console import command_group
from rackward.cli.groups import explain as groups_explain
from rackward.cli.groups import rebalance as groups_rebalance

app = command_group("Explain why consumer groups read from other racks, and rebalance them.")
app.command(epilog=groups_explain.EPILOG)(groups_explain.explain)
app.command(epilog=groups_rebalance.EPILOG)(groups_rebalance.rebalance)
