"""The types of Holdfast: frozen structs without behaviour. Imports nothing else of Holdfast but errors."""
