"""What a budget buys, before any of it is spent."""
