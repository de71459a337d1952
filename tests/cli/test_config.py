"""Defaults come from a file and from variables; what writes, reveals or decides on exit codes never does."""

from pathlib import Path

import pytest

from dcpdump.cli.config import config_path
from tests.support.console import run

READ = "dcpdump read samples/replica.pcap -q -c 1"
LINE = "#1 2025-11-20T12:03:11.000750Z c0 TX hello{features=XATTR|SNAPPY|JSON"


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "config.toml"
    monkeypatch.setenv("DCPDUMP_CONFIG", str(path))
    return path


def test_the_file_sets_defaults_that_the_command_line_overrides(config: Path) -> None:
    config.write_text('[read]\nformat = "line"\nvalue_bytes = 4\n[streams]\nidle = 60\n')
    assert run(READ).out.startswith(LINE)
    assert run(READ.replace(" read", "")).out.startswith(LINE)
    assert run(f"{READ} -f table").out.startswith("#1  2025")


def test_a_variable_counts_more_than_the_file_and_less_than_an_option(
    config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config.write_text('[read]\nformat = "csv"\n')
    monkeypatch.setenv("DCPDUMP_READ_FORMAT", "line")
    assert run(READ).out.startswith(LINE)
    assert run(f"{READ} -f ndjson").out.startswith("{")


def test_an_option_that_may_be_given_several_times_takes_a_text_or_a_list(config: Path) -> None:
    for value in ('"sasl_auth,open"', '["sasl_auth", "open"]'):
        config.write_text(f'[read]\nformat = "line"\nopcode = {value}\nkind = "request"\n')
        found = run("dcpdump read samples/replica.pcap -q").out.splitlines()
        assert [line.split()[3].partition("{")[0] for line in found] == ["TX", "TX"]


@pytest.mark.parametrize(
    ("text", "error", "hint"),
    [
        ("[raed]\n", "there is no command 'raed'", "did you mean [read]?"),
        ("[read]\nformt = 'line'\n", "[read] formt: there is no such option", "did you mean [read] format?"),
        ("[read]\nformat = 'lines'\n", "[read] format: 'lines' is not one of", "dcpdump help config"),
        ("[read]\nquiet = 'yes'\n", "[read] quiet is true or false", "dcpdump help config"),
        ("[read]\nformat = true\n", "[read] format is a text or a number", "dcpdump help config"),
        ("[read]\nformat = {}\n", "[read] format is neither a text", "dcpdump help config"),
        ("read = 1\n", "read is not a section", "[read], and below it: format = 'line'"),
        ("[read\n", "is not TOML: ", "dcpdump help config"),
        *(
            (f"[read]\n{key} = {value}\n", f"[read] {key} can be given on the command line only", "dcpdump help config")
            for key, value in [("output", "'x'"), ("force", "true"), ("show-secrets", "true")]
        ),
    ],
)
def test_what_is_wrong_in_the_file_is_a_clear_error(config: Path, text: str, error: str, hint: str) -> None:
    config.write_text(text)
    printed = run(READ)
    assert (printed.code, printed.out) == (2, "")
    first, second = printed.err.splitlines()
    assert first.startswith(f"dcpdump: error: {config}: {error}")
    assert second == f"hint: {hint}"


@pytest.mark.parametrize("key", ["fail-on = 'never'", "ignore = 'DCP4'", "vbucket = '9'"])
def test_no_file_changes_what_check_ends_with(config: Path, key: str) -> None:
    config.write_text(f"[check]\n{key}\n")
    assert run("dcpdump check samples/order.pcap -q").code == 2


def test_no_variable_writes_reveals_or_decides(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (
        ("READ_OUTPUT", str(tmp_path / "x")),
        ("READ_SHOW_SECRETS", "1"),
        ("CHECK_FAIL_ON", "never"),
        ("CHECK_VBUCKET", "9"),
    ):
        monkeypatch.setenv(f"DCPDUMP_{name}", value)
    shown = run("dcpdump read samples/replica.pcap -q --opcode sasl_auth").out
    assert "secret" in shown
    assert "correct horse" not in shown
    assert not (tmp_path / "x").exists()
    assert run("dcpdump check samples/order.pcap -q").code == 1


def test_a_file_that_is_named_has_to_be_there(config: Path) -> None:
    assert "cannot read: no such file" in run(READ).err


def test_the_file_is_in_the_place_of_the_platform(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DCPDUMP_CONFIG")
    monkeypatch.setattr("click.get_app_dir", lambda name: str(tmp_path / name))
    assert config_path() is None
    (tmp_path / "dcpdump").mkdir()
    (tmp_path / "dcpdump" / "config.toml").write_text("")
    assert config_path() == str(tmp_path / "dcpdump" / "config.toml")
