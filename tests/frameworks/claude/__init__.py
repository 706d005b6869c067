"""The Claude Agent SDK on Holdfast."""
