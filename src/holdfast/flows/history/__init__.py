"""The history view: boundaries, summaries, compaction, previews, handles and the guard."""
