"""Thin jobs around the transforms: they read, check, write, and sum up what they did."""
