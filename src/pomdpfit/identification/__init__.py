"""What the data can tell apart."""
