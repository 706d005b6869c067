"""Ports filled in from the outside world."""
