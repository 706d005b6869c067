"""The finder of superseded values in a text, and the edits that hide or mark them."""
