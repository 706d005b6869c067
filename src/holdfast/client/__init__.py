"""`holdfast.connect()`: the engine of a server, with the methods of a local one. It needs the extra `client`."""
