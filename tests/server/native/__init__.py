"""Tests of the native API, over real sockets."""
