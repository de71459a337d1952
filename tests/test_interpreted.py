"""What is compiled works as it is written, too: where there is no compiler, it runs like that."""

import subprocess
import sys

import pytest

#: Tests that pass through all modules that are compiled.
CORE = (
    "batch/test_picking net/test_bytestream net/test_connections render/test_plain_rows"
    " wire/test_json_scan wire/test_session wire/test_split"
)


@pytest.mark.parametrize(
    "words",
    [
        pytest.param([f"tests/{name}.py" for name in CORE.split()], id="core"),
        pytest.param(["-n", "auto"], marks=pytest.mark.nightly, id="all"),
    ],
)
def test_the_tests_pass_where_nothing_is_compiled(words: list[str]) -> None:
    pytest_ = [sys.executable, "-m", "pytest", "-q", "--interpreted", "-p", "no:cacheprovider", *words]
    done = subprocess.run(pytest_, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1000:]
