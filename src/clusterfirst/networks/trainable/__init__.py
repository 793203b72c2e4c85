"""The same networks in torch: what learns."""

from importlib.util import find_spec

from clusterfirst.problem.errors import InputError, Problem

if find_spec("torch") is None:
    _RULE = "torch is not installed: pip install 'clusterfirst[train]'"
    raise InputError(Problem("E422", "learning", "no torch", _RULE))
