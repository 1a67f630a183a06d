"""All that compiled code can see: codes, version switches, record types."""
