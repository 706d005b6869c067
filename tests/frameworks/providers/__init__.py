"""Gemini, Bedrock and LiteLLM: their real clients, against a server on this machine that answers by a script."""
