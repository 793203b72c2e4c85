"""clusterfirst: routes for your city in seconds."""

__version__ = "0.1.0"
