"""Asking a live cluster, and changing it, through kafka-python."""
