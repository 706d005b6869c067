"""Tests of the client: an engine of a server, over a real socket."""
