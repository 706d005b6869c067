"""Tools: their descriptions for providers, made from functions."""
