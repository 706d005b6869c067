"""The conformance suites of the Model Context Protocol, run against Holdfast's endpoint with the fixtures that they call by
name: `make conformance`."""
