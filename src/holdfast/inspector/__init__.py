"""The inspector: a page that shows what a store has, and a file that shows one session of it.

The page is built from the sources in `inspector/` by `make inspector`; nobody who uses it needs Node. It reads everything
through /api, so that anything it shows can be had without it.
"""
