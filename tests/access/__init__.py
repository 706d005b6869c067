"""Tests of who may use a store, and what of it."""
