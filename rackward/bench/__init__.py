"""``rackward bench``: bytes across racks of many strategies under many workloads, measured."""

from placement_core import RackwardError


class BenchError(RackwardError):
    """The benchmark cannot be run, or its results cannot be used."""
