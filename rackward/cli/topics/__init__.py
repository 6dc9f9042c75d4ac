"""``rackward topics``: create, extend and describe topics."""

from rackward.cli.console import command_group
from rackward.cli.topics import create as topics_create
from rackward.cli.topics import describe as topics_describe

app = command_group("Create topics, add partitions and describe topics, by rack.")
app.command(epilog=topics_create.EPILOG)(topics_create.create)
app.command("add-partitions", epilog=topics_create.EPILOG)(topics_create.add_partitions)
app.command(epilog=topics_describe.EPILOG)(topics_describe.describe)
