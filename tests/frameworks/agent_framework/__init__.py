"""The adapter for the Microsoft Agent Framework, with its agents and a scripted chat client."""
