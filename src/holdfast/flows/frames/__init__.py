"""Flows about frames: push and pop, budgets, suspension and recovery."""
