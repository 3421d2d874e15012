"""Runs with their records, and the statistics of them."""
