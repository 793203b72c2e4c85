"""One tour per cluster."""
