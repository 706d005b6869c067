"""Tests of Holdfast in Google's Agent Development Kit."""
