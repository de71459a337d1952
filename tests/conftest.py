"""The same examples in every run: what Hypothesis draws must not decide whether a change may land.

``pytest --hypothesis-profile=default`` draws new ones.
"""

import gc
import importlib
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import settings

from tests.support.interpreted import PACKAGE, Interpreted
from tests.support.live import Network, network

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

for _name in [name for name in os.environ if name.startswith("DCPDUMP_")]:
    del os.environ[_name]  # defaults of whoever runs the tests
os.environ["DCPDUMP_CONFIG"] = ""  # none, here and in processes that tests start

# Processes that tests start inherit what this one ignores: interrupts behind a shell's '&', hang-ups behind nohup.
for _number, _usual in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)):
    if signal.getsignal(_number) is signal.SIG_IGN:
        signal.signal(_number, _usual)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option that leaves compiled modules alone. Processes that tests start are compiled all the same."""
    parser.addoption("--interpreted", action="store_true", help="test the modules as they are written")


def pytest_configure(config: pytest.Config) -> None:
    """Refuse to test modules that were compiled of an older source."""
    if config.getoption("--interpreted"):
        if "dcpdump" in sys.modules:
            raise pytest.UsageError("--interpreted comes too late: dcpdump is imported already")
        sys.meta_path.insert(0, Interpreted())
        return
    compiled = max((each.stat().st_mtime for each in PACKAGE.parent.glob("*__mypyc*")), default=None)
    for source in PACKAGE.rglob("*.py"):
        is_compiled = any(source.with_name(source.stem + suffix).exists() for suffix in EXTENSION_SUFFIXES)
        if is_compiled and (compiled is None or compiled < source.stat().st_mtime):
            raise pytest.UsageError(f"{source} is newer than what was compiled of it: install again")


#: A terminal of a test has nobody who would leave the pager.
os.environ["DCPDUMP_PAGER"] = ""

settings.register_profile("steady", derandomize=True, deadline=None)
settings.load_profile("steady")


def pytest_collection(session: pytest.Session) -> None:
    """Import a share of the tests first, where several processes test: each then finds what others have rewritten."""
    given = getattr(session.config, "workerinput", None)
    if given is None:
        return
    files = [path for each in session.config.args for path in sorted(Path(each).rglob("test_*.py"))]
    for path in files[int(given["workerid"][2:]) :: given["workercount"]]:
        with suppress(Exception, pytest.skip.Exception):  # which collecting reports
            importlib.import_module(".".join(path.resolve().relative_to(PACKAGE.parent).with_suffix("").parts))


#: What takes longest is begun first, so that nothing is waited for at the end.
_LONGEST = ("tests/spark/", "tests/test_bounds.py")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with what takes longest."""
    items.sort(key=lambda item: not item.nodeid.startswith(_LONGEST))


def pytest_collection_finish() -> None:
    """Have the garbage collector leave all modules and tests alone: it went through them every few tests."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(100_000, 10, 10)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """Return how many processes test: one more than there are cores, since some wait for what they test."""
    return (os.cpu_count() or 1) + 1


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Give the tests of a file to one process, and all of Spark to one: they share what is made for several."""
    from xdist.scheduler import LoadScopeScheduling

    class ByFile(LoadScopeScheduling):  # type: ignore[misc]
        def _split_scope(self, nodeid: str) -> str:
            file = nodeid.partition("::")[0]
            return "spark" if file.startswith("tests/spark/") else file

    if config.getvalue("dist") != "load":  # something else was requested
        return None
    config.option.loadscopereorder = False
    return ByFile(config, log)


#: Java that starts fast rather than becomes fast: what Spark's archives hold is not verified.
FAST_START = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote"
#: What suits tables of some thousand rows: that, and plans that are not compiled.
_SMALL = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "2",
    "spark.driver.memory": "512m",
    "spark.driver.defaultJavaOptions": FAST_START,
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.adaptive.enabled": "false",
}


#: Spark puts a zip of pyspark first, of which each process of Python would compile all that it imports.
_UNZIPPED = """
import sys
sys.path[:] = [each for each in sys.path if not each.endswith("pyspark.zip")]
"""


#: What a driver that is interpreted and its workers pickle fits together.
_INTERPRETED = f"""
sys.path.append({str(PACKAGE.parent)!r})
from tests.support.interpreted import Interpreted
sys.meta_path.insert(0, Interpreted())
"""


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config) -> "Iterator[SparkSession]":
    """Yield one session of Spark, with two cores, for all tests that want one."""
    pytest.importorskip("pyspark", reason="Spark is not installed: nothing on it is tested")
    from pyspark.sql import SparkSession

    from dcpdump.spark.launch import spark_context

    folder = tmp_path_factory.mktemp("unzipped")
    interpreted = _INTERPRETED if pytestconfig.getoption("--interpreted") else ""
    (folder / "sitecustomize.py").write_text(_UNZIPPED + interpreted)
    with ExitStack() as stack:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("PYTHONPATH", str(folder), prepend=os.pathsep)
            started = stack.enter_context(spark_context("local[2,3]", _SMALL))
        yield SparkSession(started)


@pytest.fixture(scope="module")
def net() -> Iterator[Network]:
    """Yield a network to capture in, or skip the test."""
    with network() as inside:
        yield inside
