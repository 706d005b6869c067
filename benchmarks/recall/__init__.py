"""Recall: how much of the evidence that a question needs is among the passages recalled within a budget."""
