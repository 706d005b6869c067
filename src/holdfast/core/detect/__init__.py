"""Reading plain text for what it changes: the default detector, by rules alone."""
