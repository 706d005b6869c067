"""Tests of the page in a real Chromium. They are a package of their own, so that a process has one browser and one server
for all of them."""
