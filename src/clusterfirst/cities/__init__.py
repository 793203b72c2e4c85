"""What a city knows: its past days, their law, and what follows from it."""
