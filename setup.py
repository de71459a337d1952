"""Compile the modules that every packet passes, where there is a C compiler. Elsewhere they run as they are.

The compiler of Python is mypyc, which comes with mypy; it is asked for only where its C can be compiled. With
``DCPDUMP_PURE`` in the environment nothing is compiled, and the wheel is good for every platform.
"""

import gc
import hashlib
import os
import re
import shutil
import sys
import sysconfig
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from setuptools import setup
from setuptools._distutils.ccompiler import new_compiler
from setuptools._distutils.errors import CCompilerError, DistutilsError
from setuptools._distutils.sysconfig import customize_compiler
from setuptools.command.build_ext import build_ext

#: The modules that are compiled. They are ordinary Python, and leave what they do to the interpreter just as well.
COMPILED = """
batch/cutting batch/document_runs batch/scan batch/plans
big_endian conversation
capture/plain_pcap
net/batch net/bytestream net/connections net/endpoints net/layers net/reassembly
render/plain_rows render/plain_formats
wire/frames wire/split wire/json_scan
""".split()


#: Of modules that are not compiled only the types count, and of libraries that are not there not even these.
_TYPES = ["--follow-imports=silent", "--ignore-missing-imports"]


def can_compile() -> bool:
    """Return whether a module in C could be compiled here."""
    if os.environ.get("DCPDUMP_PURE"):
        return False
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "probe.c")
        source.write_text("#include <Python.h>\nint probe(void) { return PY_VERSION_HEX != 0; }\n")
        compiler = new_compiler()
        customize_compiler(compiler)
        try:
            objects = compiler.compile([str(source)], output_dir=folder, include_dirs=[sysconfig.get_path("include")])
            compiler.link_shared_object(objects, str(Path(folder, "probe.so")))
        except (CCompilerError, DistutilsError, OSError):
            return False
    return True


def extensions() -> list[Any]:
    """Return what is to be compiled: nothing where mypyc is not there (yet)."""
    try:
        from mypyc.build import mypycify
    except ImportError:
        return []
    modules = [f"dcpdump/{name}.py" for name in COMPILED]
    # What takes time is in Python's own objects: at a higher level nothing is faster but the wait for gcc longer.
    gc.disable()  # there is nothing to collect: all that is made of the modules is wanted to the end
    try:
        made = mypycify(_TYPES + modules, opt_level="1", debug_level="0", group_name="dcpdump", multi_file=True)
    finally:
        gc.freeze()  # nor is it looked through at the end, which took longer than some of the work
    for each in made:
        each.sources = bundled([Path(source) for source in each.sources])
    return made


def bundled(sources: list[Path]) -> list[str]:
    """Return files of about one size that include these: what all of them include takes a fifth of the time."""
    bundles: list[list[Path]] = [[] for _ in range(min(len(sources), 2 * (os.cpu_count() or 1)))]
    for source in sorted(sources, key=lambda each: -each.stat().st_size):
        min(bundles, key=lambda bundle: sum(each.stat().st_size for each in bundle)).append(source)
    for bundle in bundles:
        if len(bundle) > 1:
            lines = [f'#include "{source.resolve()}"\n' for source in bundle]
            bundle[:] = [bundle[0].with_name(f"bundle_{bundle[0].stem.strip('_')}.c")]
            bundle[0].write_text("".join(lines))
    return [str(bundle[0]) for bundle in bundles]


#: Objects of earlier installations from this folder.
KEPT = Path("build", "objects")


def digest(source: Path) -> str:
    """Return what tells a file of C from others: its text, that of what it includes, and the Python that it is for."""
    included = re.findall(r'^#include "(/[^"]+)"', text := source.read_text(), re.MULTILINE)
    headers = sorted(Path("build").glob("*.h"))
    texts = [Path(each).read_text() for each in (*included, *headers)]
    return hashlib.sha256("".join([sys.version, *texts, "" if included else text]).encode()).hexdigest()


class InParallel(build_ext):  # type: ignore[misc]
    """Compile the C of extensions on all cores."""

    def build_extensions(self) -> None:
        """Compile file by file, several at a time."""
        self.parallel = os.cpu_count()  # of extensions; each compiled module is one, if a small one
        compiler = self.compiler
        one_by_one = compiler.compile

        def compile_one(source: str, **options: Any) -> str:
            """Compile a file, unless that was done before of the same text."""
            known = KEPT / f"{digest(Path(source))}.o"
            if not known.exists():
                (made,) = one_by_one([source], **options)
                known.parent.mkdir(parents=True, exist_ok=True)
                mine = known.with_suffix(f".{os.getpid()}")  # another installation may make the same just now
                shutil.copy2(made, mine)
                mine.replace(known)
            return str(known)

        def compile_all(sources: list[str], **options: Any) -> list[str]:
            with ThreadPoolExecutor(os.cpu_count()) as pool:
                return list(pool.map(lambda one: compile_one(one, **options), sources))

        compiler.compile = compile_all
        super().build_extensions()


#: What mypyc needs: itself. What libraries have as types no compiled module asks for.
NEEDED = ["mypy>=2.4"]

#: What asks only for names and needs: the modules need not be looked at for that.
_ASKING = {"egg_info", "dist_info", "sdist"}

if can_compile():
    setup(
        setup_requires=NEEDED,
        cmdclass={"build_ext": InParallel},
        ext_modules=[] if _ASKING & set(sys.argv) else extensions(),
    )
else:
    setup()
