"""The nouns: frozen structs and nothing that acts. Imports nothing of Holdfast but errors."""
