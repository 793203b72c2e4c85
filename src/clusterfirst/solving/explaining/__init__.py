"""Why a customer is where it is."""
