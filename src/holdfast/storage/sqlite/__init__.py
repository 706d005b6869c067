"""The embedded store: one SQLite file, through apsw.

Laws: WAL with synchronous=FULL, so an acknowledged command survives a power failure. Each process has one writer,
and commands that wait at the same time share a commit. Transactions start with BEGIN IMMEDIATE, so processes take
turns. Readers never block the writer.
"""
