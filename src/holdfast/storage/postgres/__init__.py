"""The store past one machine: PostgreSQL, through psycopg.

Laws: any number of processes on any number of machines serve any stream, and none holds state that another needs; one call
is one statement or one short transaction on a connection borrowed for it; a command is one round trip, shared by those
that wait beside it; what is remembered here is checked there, under the stream's lock.
"""
