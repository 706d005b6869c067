"""The surface of Holdfast over HTTP: one table of operations that the server, the OpenAPI document and the client share."""
