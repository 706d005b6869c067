"""The stores: event stores and blob stores behind the ports. They import ports, model, codec and chain, never the
core."""
