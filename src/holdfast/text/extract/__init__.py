"""Summaries without a model: quotations from the conversation."""
