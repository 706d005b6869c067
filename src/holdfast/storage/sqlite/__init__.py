"""The embedded store: one SQLite file, through apsw.

Laws: WAL with synchronous=FULL, so an acknowledged command survives power loss; one writer a process, whose commits are
shared by all commands that wait; BEGIN IMMEDIATE, so processes take turns; readers never block the writer.
"""
