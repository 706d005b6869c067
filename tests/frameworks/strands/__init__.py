"""The adapter for Strands, with Strands' agents and a scripted model."""
