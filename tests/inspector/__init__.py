"""Tests of the inspector, in a real browser."""
