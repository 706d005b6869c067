"""Commands that write files of this repository."""
