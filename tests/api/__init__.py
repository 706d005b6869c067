"""Tests of the table of operations and of values as JSON."""
