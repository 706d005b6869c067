"""Packs: requests, candidates, assembly, manifests and records."""
