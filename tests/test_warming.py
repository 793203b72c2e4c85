"""The first start: what is compiled, that it can be counted, and that it ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from clusterfirst.networks.model_folder import save_model
from clusterfirst.problem.clock import is_compiling
from clusterfirst.solving.warming import PARTS, needed, warm_up
from clusterfirst.stages import kernel_cache
from clusterfirst.stages.compiled import kernel
from networks import PSI, small_model

WARM = """
import sys
from clusterfirst.problem.clock import is_compiling
from clusterfirst.solving.warming import PARTS, needed, warm_up
from clusterfirst.stages.kernel_cache import KERNELS, calls_left
method, polish = sys.argv[1], sys.argv[2] == "True"
warm_up(method, polish=polish)
wanted = tuple(m for name in needed(method, polish) for m in PARTS[name].modules)
print(calls_left(wanted), "left")
for each in KERNELS:
    if each.overloads and not each.__module__.startswith(wanted):
        print(each.__module__, each.__name__)
"""


@pytest.mark.parametrize(
    ("method", "polish"),
    [("fisher-jaikumar", True), ("fisher-jaikumar", False), ("petal", False)],
)
def test_exactly_what_the_options_run_is_compiled(method: str, polish: bool) -> None:
    """Every kernel that Python calls in the needed parts, and none of others (B7).

    So that looking at the cache says whether anything is left to compile.
    """
    command = [sys.executable, "-c", WARM, method, str(polish)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == "0 left\n"


def test_every_part_has_kernels_and_no_method_needs_all() -> None:
    """Peers and outside programs need little or nothing of ours."""
    assert needed("cmd:solver {instance}", True) == []
    assert "polish" not in needed("hgs", True)
    assert set(needed("fisher-jaikumar", True)) < set(PARTS)


IN_PROCESS = """
import sys
import clusterfirst.solving.warming as warming
from clusterfirst.__main__ import run
warming.FEW = 10**9  # no processes: this one compiles
sys.exit(run())
"""


@pytest.mark.parametrize("how", ["processes", "in process"])
def test_ctrl_c_ends_compilation_at_once(how: str, tmp_path: Path) -> None:
    """Exit code 130 and one line, within seconds; no process is left (A12)."""
    day = tmp_path / "day.vrp"
    day.write_text(
        "NAME : day\nTYPE : CVRP\nDIMENSION : 4\nEDGE_WEIGHT_TYPE : EUC_2D\n"
        "CAPACITY : 2\nNODE_COORD_SECTION\n1 0 0\n2 1 5\n3 5 2\n4 3 3\n"
        "DEMAND_SECTION\n1 0\n2 1\n3 1\n4 1\nDEPOT_SECTION\n1\n-1\nEOF\n"
    )
    command = [sys.executable, *(["-c", IN_PROCESS] if how == "in process" else [])]
    command += [] if how == "in process" else ["-m", "clusterfirst"]
    cache = tmp_path / "cache"
    process = subprocess.Popen(
        [*command, "solve", str(day)],
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
        env={**os.environ, "NUMBA_CACHE_DIR": str(cache)},
        start_new_session=True,
    )
    _wait_for(lambda: len(list(cache.rglob("*.nbi"))) > 1)
    start = time.monotonic()
    os.killpg(process.pid, signal.SIGINT)
    _, words = process.communicate(timeout=60)
    assert time.monotonic() - start < 5  # 1 s with a fifth of a core (log/)
    assert process.returncode == 130
    assert "interrupted" in words
    assert "Traceback" not in words
    assert "ignored" not in words
    _wait_for(lambda: not _compiling(cache))


def _compiling(cache: Path) -> bool:
    """Whether a process still has this cache in its environment."""
    wanted = f"NUMBA_CACHE_DIR={cache}".encode()
    for path in Path("/proc").glob("[0-9]*/environ"):
        try:
            if wanted in path.read_bytes():
                return True
        except OSError:
            continue
    return False


def _wait_for(condition: Any) -> None:
    for _ in range(600):
        if condition():
            return
        time.sleep(0.1)
    pytest.fail("waited in vain")


@kernel
def _one() -> int:
    return 1


def test_a_broken_cache_is_thrown_away() -> None:
    """An index cut short, as by a power failure, costs a compilation, not an answer."""
    assert _one() == 1
    cache: Any = _one._cache  # type: ignore[attr-defined]  # noqa: SLF001  # of numba
    index = Path(cache._cache_file._index_path)  # noqa: SLF001
    _one.overloads.clear()  # type: ignore[attr-defined]
    assert kernel_cache.kernels_left((__name__,)) == 0
    for text in (b"", b"\x80\x04no"):
        index.write_bytes(text)
        assert kernel_cache.kernels_left((__name__,)) == 1
        assert not index.exists()


def test_a_cache_that_cannot_be_written_is_no_error() -> None:
    """On a full disk, or without a place for it, kernels are compiled in memory."""

    class Index:
        """Stands for numba's, whose class is changed."""

        def __init__(self) -> None:
            self._source_stamp = (0.0, 0)

    class Full:
        py_func = staticmethod(test_a_cache_that_cannot_be_written_is_no_error)

        class _cache:
            _cache_file = Index()

            @staticmethod
            def save_overload(*given: object) -> None:
                raise OSError(28, "No space left on device")

        def enable_caching(self) -> None:
            pass

    class Nowhere(Full):
        def enable_caching(self) -> None:
            raise RuntimeError("cannot cache function: no locator available")

    before = list(kernel_cache.KERNELS)
    full: Any = Full()
    try:
        kernel_cache.enable_cache(full)
        full._cache.save_overload("signature", b"")  # noqa: SLF001
        kernel_cache.enable_cache(Nowhere())
    finally:
        kernel_cache.KERNELS[:] = before


def test_the_door_imports_no_numba() -> None:
    """`clusterfirst --help` waits for nothing that compiles."""
    imports = "import sys, clusterfirst.__main__, clusterfirst.cli"
    command = [sys.executable, "-c", f"{imports}; print('numba' in sys.modules)"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


def test_a_model_of_a_real_city_is_warmed_up(tmp_path: Path) -> None:
    """A model that knows a city in degrees is tried on a day in degrees."""
    model = small_model("own", PSI)
    assert model.city is not None
    city = model.city.replace(metric="greatcircle")
    save_model(tmp_path / "own", replace(model, city=city), "")
    warm_up("neural", str(tmp_path / "own"))


SLOW = """
import sys, time
import clusterfirst.solving.warming as warming
def slow(model):
    print("begins", time.monotonic()); time.sleep(0.5); print("ends", time.monotonic())
part = warming.PARTS["savings"]
warming.PARTS["savings"] = warming.Part(part.door, part.modules, slow)
warming.needed = lambda method, polish: ["savings"]
warming.FEW, warming.calls_left = 9, lambda modules: 1
warming.warm_up("savings")
"""


def test_what_is_compiled_at_home_is_compiled_by_one(tmp_path: Path) -> None:
    """Workers that begin together do not compile the same for as many times."""
    command = [sys.executable, "-c", SLOW]
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    both = [
        subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
        for _ in range(2)
    ]
    said = [process.communicate(timeout=120)[0].split() for process in both]
    first, second = sorted((float(s[1]), float(s[3])) for s in said)
    assert first[1] <= second[0]


def test_a_signal_in_a_callback_of_llvm_is_seen() -> None:
    """What LLVM calls prints an exception and goes on: there it must end at once."""
    words = "def called(): return sys._getframe()"
    for module, seen in (("llvmlite.binding.executionengine", True), ("ours", False)):
        room: dict[str, Any] = {"sys": sys, "__name__": module}
        exec(words, room)
        assert is_compiling(room["called"]()) is seen
    assert not is_compiling(None)
