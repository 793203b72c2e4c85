"""Methods at equal seconds on equal cores."""
