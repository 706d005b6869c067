"""The objects that users hold, and the two drivers that answer what flows ask for."""
