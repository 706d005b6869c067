"""For tests, yours and ours: what any backend must keep, and ways to make its life hard."""
