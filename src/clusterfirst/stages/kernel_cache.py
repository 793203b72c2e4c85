"""The kernels in this process, and which of them are compiled already, on disk.

numba keeps the machine code of each kernel in two files, an index and the code. A
cache that cannot be written costs time, never an answer; one that was cut short by a
full disk or a power failure is thrown away.
"""

from __future__ import annotations

from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

from numba.core.caching import IndexDataCacheFile

PACKAGE = Path(__file__).parents[1]
KERNELS: list[Any] = []  # of numba, all that were imported


class CacheIndex(IndexDataCacheFile):
    """The list of what is cached for a kernel; one of another version is empty.

    numba unpickles a list before it looks whether the source has changed, and fails
    where a class in it has moved: an upgrade in place would end in a traceback.
    """

    def _load_index(self) -> Any:
        try:
            return super()._load_index()  # type: ignore[no-untyped-call]
        except (AttributeError, ImportError):
            return {}


def enable_cache(dispatcher: Any) -> None:
    """Keep the code of a kernel on disk, where there is a place for it."""
    KERNELS.append(dispatcher)
    try:
        dispatcher.enable_caching()
    except RuntimeError:  # nowhere to write: compiled in each process
        return
    file = dispatcher._cache._cache_file  # noqa: SLF001
    file.__class__ = CacheIndex
    # numba looks at the kernel's own file only, but its code holds what it calls and
    # the constants of other files: changed ones would go on as they were.
    file._source_stamp = (file._source_stamp, _beside(dispatcher.py_func))  # noqa: SLF001
    save = dispatcher._cache.save_overload  # noqa: SLF001  # numba has no other way

    def save_if_possible(*given: Any) -> None:
        with suppress(OSError):
            save(*given)

    dispatcher._cache.save_overload = save_if_possible  # noqa: SLF001


def _beside(function: Any) -> tuple[tuple[str, int, int], ...]:
    """Name, time and size of all sources that may be compiled into a kernel."""
    own = Path(function.__code__.co_filename).parent
    below = next((p for p in (own, *own.parents) if p.parent == PACKAGE), own)
    return _stamps(below) + _stamps(PACKAGE / "stages", "compiled.py")


@cache
def _stamps(folder: Path, pattern: str = "*.py") -> tuple[tuple[str, int, int], ...]:
    found = []
    for path in sorted(folder.rglob(pattern)):
        with suppress(OSError):  # an editor is writing it
            facts = path.stat()
            found.append((path.name, facts.st_mtime_ns, facts.st_size))
    return tuple(found)


def kernels_left(modules: tuple[str, ...]) -> int:
    """How many kernels of these modules (or packages) are compiled nowhere yet."""
    return sum(not _is_cached(each) for each in _kernels_of(modules))


def calls_left(modules: tuple[str, ...]) -> int:
    """How many of those that Python calls; the others are a part of them."""
    return sum(
        not _is_cached(each)
        for each in _kernels_of(modules)
        if not each.targetoptions.get("no_cpython_wrapper")
    )


def _kernels_of(modules: tuple[str, ...]) -> list[Any]:
    return [each for each in KERNELS if each.__module__.startswith(modules)]


def _is_cached(dispatcher: Any) -> bool:
    """Whether there is code for this processor, from the source as it is now."""
    if dispatcher.overloads:
        return True
    cache = dispatcher._cache  # noqa: SLF001
    file = getattr(cache, "_cache_file", None)
    if file is None:
        return False
    try:
        found = file._load_index()  # noqa: SLF001
    except Exception:  # half written: whatever unpickling may raise
        with suppress(OSError):
            Path(file._index_path).unlink()  # noqa: SLF001
        return False
    wanted = cache._index_key((), dispatcher.targetctx.codegen())[1:]  # noqa: SLF001
    return any(
        key[1:] == wanted and _has_bytes(Path(cache.cache_path) / name)
        for key, name in found.items()
    )


def _has_bytes(path: Path) -> bool:
    try:
        return path.stat().st_size > 0
    except OSError:
        return False
