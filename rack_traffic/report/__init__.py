"""The report: from the pipeline's tables to one page, one JSON document or a few small tables.

:mod:`~rack_traffic.report.load` adds the tables up in bounded memory, and everything after that is
a pure function of a :class:`~rack_traffic.report.model.Summary`.
"""
