"""The native API of a server at /api: the table of operations over HTTP, and what is no single request and answer."""
