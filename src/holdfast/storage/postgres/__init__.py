"""The store on PostgreSQL, through psycopg.

Laws: any number of processes on any number of machines serve any stream; none has state that another needs. A call
is one statement or one short transaction on a borrowed connection. A command is one round trip, shared by commands
that wait at the same time. What a process remembers is checked in the database, under the lock of the stream.
"""
