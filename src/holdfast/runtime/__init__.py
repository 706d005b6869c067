"""The objects that programs work with, and the two drivers that carry out the effects of flows."""
