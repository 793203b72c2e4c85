"""Plans for other programs and for people: `clusterfirst serve` (docs/service.md)."""
