"""What a server says of a refusal, with the reference to its log, is shown wherever the refusal is."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.check_cases import CONSUMER
from tests.support.console import run
from tests.support.conversation import opening
from tests.support.diagnoses import rows, written
from tests.support.ledgers import verdicts

OPEN = opening()


def error(**said: Any) -> str:
    """Return the datatype and the value of a refusal."""
    return answer(json.dumps({"error": said}))


def answer(value: str) -> str:
    return f"datatype=1, value=#{value.encode().hex()}"


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (error(context="no", ref="12-ab"), " (server: no, ref 12-ab)"),
        (error(ref="12-ab"), " (server: ref 12-ab)"),
        (error(context="no"), " (server: no)"),
        (error(context=5, ref=None), ""),
        (answer('{"error":5}'), ""),
        (error(context="x" * 999, ref="\x07"), rf" (server: {'x' * 399}…, ref \x07)"),
    ],
)
def test_what_the_server_says_of_a_refusal_is_shown_with_its_reference(value: str, said: str) -> None:
    assert verdicts(OPEN + f"TX stream-request{{vb=5}}\nRX stream-request-response{{eaccess, {value}}}\n") == [
        f"refused (Eaccess 0x24: the user may not stream this{said})"
    ]


SAID = error(context="User is not known", ref="12-ab")
HELLO = "TX hello{features=6|0xb, key=app}\nRX hello-response{success, features=6|0xb}\n"
SETUP = {
    "login": HELLO + f"TX sasl-auth{{key=PLAIN, value=secret}}\nRX sasl-auth-response{{autherror, {SAID}}}\n",
    "bucket": HELLO + f"TX select-bucket{{key=nope}}\nRX select-bucket-response{{eaccess, {SAID}}}\n",
    "open": HELLO + f"TX open{{flags=1, key=app}}\nRX open-response{{eaccess, {SAID}}}\n",
    "add stream": CONSUMER
    + f"TX add-stream{{vb=5}}\nRX add-stream-response{{notmyvbucket, layout=1-refused, {SAID}}}\n",
}


@pytest.mark.parametrize("text", SETUP.values(), ids=SETUP)
def test_what_the_server_says_of_a_refused_setup_is_in_the_diagnosis(text: str, tmp_path: Path) -> None:
    (trouble,) = rows(text, tmp_path / "talk.pcap", "trouble")
    assert trouble["code"] == "setup-refused"
    assert trouble["detail"].endswith("; server: User is not known, ref 12-ab")
    (trouble,) = rows(text, tmp_path / "talk.pcap", "trouble", "--redact")
    assert "server:" not in trouble["detail"]


def test_what_the_server_says_of_a_refused_control_is_shown_with_the_connection(tmp_path: Path) -> None:
    control = f"TX control{{key=enable_noop, value=2}}\nRX control-response{{einval, {SAID}}}\n"
    path = written(OPEN + control, tmp_path / "talk.pcap")
    said = "enable_noop=2(Einval 0x04, server: User is not known, ref 12-ab)"
    assert said in run(f"dcpdump conns {path}").out
    assert "enable_noop=2(Einval 0x04)" in run(f"dcpdump conns {path} --redact").out
