"""Defaults come from a file and from variables; what writes, reveals or decides on exit codes never does."""

from pathlib import Path

import pytest

from dcpdump.cli.grouped import config_path
from tests.support.console import refusal, run
from tests.support.powerless import open_folder, powerless

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


def test_a_file_that_cannot_be_read_does_not_keep_the_page_away_that_says_how_it_is_written(config: Path) -> None:
    shown = run("dcpdump help config")
    config.write_text("[read\n")
    assert run("dcpdump help config") == shown != (2, "", "")


HELP = "dcpdump help config"


@pytest.mark.parametrize(
    ("text", "error", "hint"),
    [
        ("[raed]\n", "there is no command 'raed'", "did you mean [read]?"),
        ("[read]\nformt = 'line'\n", "[read] formt: there is no such option", "did you mean [read] format?"),
        ("[read]\nformat = 'lines'\n", "[read] format: 'lines' is not one of", HELP),
        ("[read]\nquiet = 'yes'\n", "[read] quiet is true or false", HELP),
        ("[read]\nformat = true\n", "[read] format is a text or a number", HELP),
        ("[read]\nformat = {}\n", "[read] format is neither a text", HELP),
        ("read = 1\n", "read is not a section", "[read], and below it: format = 'line'"),
        ("format = 'line'\n", "format stands in no section", "[read], and below it: format = …"),
        ("[read\n", "is not TOML: ", HELP),
        # what writes, reveals or decides on exit codes
        ("[read]\noutput = 'x'\n", "[read] output can be given on the command line only", HELP),
        ("[read]\nforce = true\n", "[read] force can be given on the command line only", HELP),
        ("[read]\nshow-secrets = true\n", "[read] show-secrets can be given on the command line only", HELP),
        ("[check]\nfail-on = 'never'\n", "[check] fail-on can be given on the command line only", HELP),
        ("[check]\nignore = 'DCP4'\n", "[check] ignore can be given on the command line only", HELP),
        ("[check]\nvbucket = '9'\n", "[check] vbucket can be given on the command line only", HELP),
    ],
)
def test_what_is_wrong_in_the_file_is_a_clear_error(config: Path, text: str, error: str, hint: str) -> None:
    config.write_text(text)
    printed = run("dcpdump check samples/order.pcap -q" if "check" in text else READ)
    assert (printed.code, printed.out) == (2, "")
    first, second = printed.err.splitlines()
    assert (first.startswith(f"dcpdump: error: {config}: {error}"), second) == (True, f"hint: {hint}")


@pytest.mark.parametrize(
    ("variable", "error", "hint"),
    [
        ("READ_REDCAT", "there is no such option", "did you mean DCPDUMP_READ_REDACT?"),
        ("READ_XYZ", "there is no such option", HELP),
        *(
            (name, "can be given on the command line only", HELP)
            for name in ("READ_OUTPUT", "READ_SHOW_SECRETS", "CHECK_FAIL_ON", "CHECK_VBUCKET")
        ),
        ("READ_VALUE_BYTES", "'never' is neither a number of bytes nor 'all'", HELP),
        ("READ_PROBLEMS", "is true or false", HELP),
    ],
)
def test_a_variable_that_is_not_right_is_a_clear_error_of_its_command_alone(
    variable: str, error: str, hint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine, other = (f"dcpdump {name} samples/order.pcap" for name in ("read", "check")[:: 1 - 2 * ("CHECK" in variable)])
    monkeypatch.setenv(f"DCPDUMP_{variable}", "never")
    assert run(mine) == refusal(2, f"DCPDUMP_{variable}: {error}", hint)
    assert run(other).code in (0, 1)
    monkeypatch.setenv(f"DCPDUMP_{variable}", "")
    assert run(mine).code in (0, 1)


def test_a_variable_has_the_long_name_of_its_option(monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = run("dcpdump check samples/order.pcap --all")
    assert wanted != run("dcpdump check samples/order.pcap")
    monkeypatch.setenv("DCPDUMP_CHECK_ALL", "1")
    assert run("dcpdump check samples/order.pcap") == wanted


def test_variables_that_belong_to_no_command_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("PAGER", "PURE", "SALT_FILE", "KEYLOG", "READER"):
        monkeypatch.setenv(f"DCPDUMP_{name}", "")
    for name in ("PAGER", "PURE", "READER"):
        monkeypatch.setenv(f"DCPDUMP_{name}", "cat")
    assert run(READ).code == run("dcpdump key nobody samples/replica.pcap").code == 0


def test_a_file_that_is_named_has_to_be_there(config: Path) -> None:
    assert "cannot read: no such file" in run(READ).err


def test_the_file_is_in_the_place_of_the_platform(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DCPDUMP_CONFIG")
    monkeypatch.setattr("click.get_app_dir", lambda name: str(tmp_path / name))
    assert config_path() is None
    (tmp_path / "dcpdump").mkdir()
    (tmp_path / "dcpdump" / "config.toml").write_text("")
    assert config_path() == str(tmp_path / "dcpdump" / "config.toml")


def test_a_file_of_defaults_in_a_folder_that_may_not_be_entered_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("DCPDUMP_CONFIG", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)
    with open_folder() as home:
        monkeypatch.setenv("HOME", str(home))
        file = home / ".config" / "dcpdump" / "config.toml"
        file.parent.mkdir(parents=True)
        file.write_text("")
        assert config_path() == str(file)
        file.parent.chmod(0)
        with powerless():
            assert config_path() is None
