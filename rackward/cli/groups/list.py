"""``rackward groups list``: all groups, sorted by what they read across racks."""

from __future__ import annotations

from rack_traffic.report.format import Currency
from rackward.cli import options
from rackward.cli.audit import read_report
from rackward.cli.console import print_json, stdout
from rackward.cli.options import ClusterOptions
from rackward.cli.render.group_audit import GROUP_JSON, report_json, show_groups

EPILOG = f"""
\b
Examples:
  rackward groups list
  rackward groups list 'orders-*' --prices prices.csv

The groups that cost most come first, then those that read most across racks. As for rackward audit,
each group is assumed to read once what was written in the last 24 hours; rackward audit also shows
what would change it.

Exit status: 0 success; 2 error (reason on stderr).

\b
JSON: {{schema_version: 1, command, cluster_id,
 racks: [{{rack, brokers}}], topics, partitions,
 replica_selectors: [{{class ("": not set, null: not readable), brokers}}],
 rates: {{watched_seconds, unsized_partitions, assumptions: [text]}},
 currency, totals: {{now: READS}},
 {GROUP_JSON}}}], faults: [text]}}
READS: {{off_rack, crossing_bytes_per_second, unknown_bytes_per_second,
 cost_per_month}}; null without figures
"""


def list_groups(
    groups: options.GroupNames = None,
    prices: options.Prices = None,
    prices_properties: options.PricesProperties = None,
    currency: options.CurrencySign = "$",
    mapping: options.RackMapping = None,
    as_json: options.Json = False,
    bootstrap_server: options.BootstrapServer = None,
    command_config: options.CommandConfig = None,
    timeout: options.Timeout = options.DEFAULT_TIMEOUT,
) -> None:
    """List consumer groups, sorted by what they read across racks."""
    sign = Currency(options.currency_symbol(currency))
    cluster = ClusterOptions(bootstrap_server, command_config, timeout)
    price_table = options.price_table(prices, prices_properties)
    report = read_report(cluster, groups, mapping, price_table, best=False)
    if as_json:
        print_json("groups list", report_json(report, sign, price_table, best=False))
    else:
        show_groups(report, stdout(), sign)
