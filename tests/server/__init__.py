"""Tests of the server with real clients, over real sockets."""
