"""``rackward groups``: locality of consumer groups."""

from rackward.cli.console import command_group
from rackward.cli.groups import explain as groups_explain
from rackward.cli.groups import list as groups_list
from rackward.cli.groups import rebalance as groups_rebalance

app = command_group(
    "List consumer groups, explain why they read from other racks, and rebalance them."
)
app.command("list", epilog=groups_list.EPILOG)(groups_list.list_groups)
app.command(epilog=groups_explain.EPILOG)(groups_explain.explain)
app.command(epilog=groups_rebalance.EPILOG)(groups_rebalance.rebalance)
