"""The capacitated assignment: HiGHS exact, sparse and hard; fast; packing."""
