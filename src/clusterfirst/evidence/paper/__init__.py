"""The paper's tables and figures again: its numbers beside ours."""
