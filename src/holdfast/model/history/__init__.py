"""History views: data types, commands and events."""
