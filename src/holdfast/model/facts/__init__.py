"""Facts: data types, commands and events of ledgers, detection."""
