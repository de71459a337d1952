"""Collections are chosen by name and shown with their names, wherever something captured named them."""

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.support.console import run
from tests.support.conversation import opening, packets, said
from tests.support.diagnoses import objects, written
from tests.support.secret_talk import saved

STREAM = "STREAM vb=5\nRX snapshot-marker{start=0, end=9, flags=0x5}\n"
SCOPE = "RX system-event{seqno:1, event=3, version=0, manifest-uid=5, scope-id=8, key=shop}\n"
CARTS = "RX system-event{seqno:2, event=0, version=0, manifest-uid=5, scope-id=8, collection-id=9, key=carts}\n"
DROP = "RX system-event{seqno:7, event=1, version=0, manifest-uid=6, scope-id=8, collection-id=9}\n"
MANIFEST = (
    '{"uid":"5","scopes":[{"name":"_default","uid":"0","collections":[{"name":"_default","uid":"0"}]},'
    '{"name":"shop","uid":"8","collections":[{"name":"carts","uid":"9"},{"name":"orders","uid":"a"}]}]}'
)
GET_MANIFEST = "TX collections-get-manifest{}\n"
GET_MANIFEST += f"RX collections-get-manifest-response{{success, datatype=1, value={MANIFEST}}}\n"


def document(seqno: int, collection: int, key: str) -> str:
    return f"RX mutation{{seqno:{seqno}, key=#{collection:02x}{key.encode().hex()}}}\n"


TALK = opening(collections=True) + STREAM + SCOPE + CARTS + document(3, 9, "a") + document(4, 10, "b") + DROP
TALK += document(8, 9, "late")


def captured(folder: Path, text: str) -> Path:
    return written(text, folder / "talk.pcap")


@pytest.fixture
def talk(tmp_path: Path) -> Path:
    return captured(tmp_path, TALK)


def keys(command: str) -> list[str]:
    return [row["key"] for row in objects(f"dcpdump {command}") if row["name"] == "DCP_MUTATION"]


@pytest.mark.parametrize(
    ("chosen", "found"),
    [
        *((each, ["a", "late"]) for each in ("shop.carts", "carts", "0x9")),
        ("shop.carts,10", ["a", "b", "late"]),
        *((each, ["b"]) for each in ("'!shop.carts'", "'!9'")),
        *((each, []) for each in ("shop.orders", "_default")),
    ],
)
@pytest.mark.parametrize("command", ["read", "read --opcode mutation", "read --vbucket 5 --seqno 3-"])
def test_a_collection_is_chosen_by_name_or_id(talk: Path, command: str, chosen: str, found: list[str]) -> None:
    assert keys(f"{command} {talk} --collection {chosen}") == found


def test_a_pipe_chooses_what_a_file_does(talk: Path) -> None:
    words = "--collection shop.carts -f ndjson -q"
    piped = run(f"dcpdump read - {words}", talk.read_bytes()).out.replace('"file": "-"', f'"file": "{talk}"')
    assert piped == run(f"dcpdump read {talk} {words}").out


@pytest.mark.parametrize(
    ("text", "known"),
    [
        (TALK, "known are shop.carts (0x9)"),
        (opening(collections=True) + STREAM + document(3, 9, "a"), "no name of a collection was captured"),
    ],
    ids=["some names", "no name"],
)
def test_a_name_that_was_not_captured_is_said_and_those_that_were(text: str, known: str, tmp_path: Path) -> None:
    printed = run(f"dcpdump read {captured(tmp_path, text)} --collection shop.orders")
    note = f"dcpdump: note: --collection: the name 'shop.orders' is not known in this capture; {known}"
    assert (printed.out, printed.err.splitlines()[0]) == ("", f"{note}; ids (0x8) always work")


@pytest.mark.parametrize("form", ["table", "grid", "line", "ndjson", "csv"])
def test_names_stand_beside_ids(talk: Path, form: str) -> None:
    shown = {
        "table": "Key          (55-56): a (collection 0x9 shop.carts)",
        "grid": "Key          (55-56): a (collection 0x9 shop.carts)",
        "line": "collection=0x9(shop.carts), key=a",
        "ndjson": '"collection": 9, "collection_name": "shop.carts", "key": "a"',
        "csv": ",shop.carts,",
    }
    assert shown[form] in run(f"dcpdump read {talk} -f {form} --seqno 3").out


def test_a_manifest_on_one_connection_names_collections_on_another_of_its_bucket(tmp_path: Path) -> None:
    begin = opening(collections=True)
    talk = "CONNECT 10.0.0.9:1 10.0.0.1:11210\n" + begin + GET_MANIFEST + "CONNECT 10.0.0.9:2 10.0.0.1:11210\n" + begin
    talk += STREAM + document(3, 10, "b") + "CONNECT 10.0.0.9:3 10.0.0.1:11210\n"
    talk += begin.replace("travel", "other") + STREAM + document(3, 10, "c")
    assert keys(f"read {captured(tmp_path, talk)} --collection shop.orders") == ["b"]


def test_export_and_carve_choose_by_name(talk: Path, tmp_path: Path) -> None:
    assert run(f"dcpdump export {talk} -o {tmp_path}/out --collection shop.carts --opcode mutation -q -f csv").code == 0
    assert len((tmp_path / "out" / "frames.csv").read_text().splitlines()) == 3
    assert run(f"dcpdump carve {talk} -w {tmp_path}/piece.pcapng --collection shop.carts -q").code == 0
    assert keys(f"read {tmp_path}/piece.pcapng --collection shop.carts") == ["a", "late"]


def test_key_chooses_and_shows_collections(talk: Path) -> None:
    printed = run(f"dcpdump key '*' {talk} --collection carts -q").out.splitlines()
    assert [line.split()[:3] for line in printed[1:3]] == [["a", "0x9", "shop.carts"], ["late", "0x9", "shop.carts"]]
    note = run(f"dcpdump key '*' {talk} --collection nothing").err.splitlines()[0]
    assert note.startswith("dcpdump: note: --collection: the name 'nothing' is not known")


def test_streams_show_what_their_filters_are_called(tmp_path: Path) -> None:
    asked = 'STREAM vb=5, value={"collections":["9","a"]}\nRX snapshot-marker{start=0, end=9, flags=0x5}\n'
    path = captured(tmp_path, opening(collections=True) + asked + SCOPE + CARTS)
    assert "0x9 shop.carts, 0xa" in run(f"dcpdump streams {path} -q").out
    ((request,),) = [row["requests"] for row in objects(f"dcpdump streams {path}")]
    assert (request["collections"], request["collection_names"]) == (["9", "a"], {"9": "shop.carts"})


def test_names_are_hashed_where_metadata_is_hidden(talk: Path) -> None:
    rows = objects(f"dcpdump read {talk} --redact-level full")
    assert ("carts" in str(rows), "shop" in str(rows)) == (False, False)
    created = [row["key"] for row in rows if row["name"] == "DCP_SYSTEM_EVENT" and "key" in row]
    assert {row["collection_name"] for row in rows if "collection_name" in row} == {".".join(created)}
    assert "carts" in str(objects(f"dcpdump read {talk} --redact"))


def test_a_name_holds_from_the_frame_on_that_said_it(tmp_path: Path) -> None:
    again = CARTS.replace("seqno:2", "seqno:4").replace("carts", "baskets")
    text = opening(collections=True) + STREAM + document(1, 9, "early") + SCOPE + CARTS
    talk = captured(tmp_path, text + document(3, 9, "a") + again + document(5, 9, "b"))
    assert [keys(f"read {talk} --collection {name}") for name in ("carts", "baskets")] == [["a"], ["b"]]
    names = [row.get("collection_name") for row in objects(f"dcpdump read {talk} --opcode mutation")]
    assert names == [None, "shop.carts", "shop.baskets"]


@pytest.mark.parametrize("how", ["", "--redact", "--redact-level full"])
@pytest.mark.parametrize("command", ["export", "pipeline", "sql"])
def test_tables_have_the_names_that_read_prints(tmp_path: Path, command: str, how: str) -> None:
    again = CARTS.replace("seqno:2", "seqno:4").replace("carts", "baskets")
    path = captured(tmp_path, TALK.replace(DROP, again))
    (tmp_path / "salt").write_text("00" * 32)
    how += f" --salt-file {tmp_path}/salt" if how else ""
    names = [row.get("collection_name") for row in objects(f"dcpdump read {path} {how}") if "collection" in row]
    assert len(set(names)) == 3
    if command == "sql":
        found = objects(f'dcpdump sql "from frames where collection is not null" {path} {how}')
    else:
        run(f"dcpdump {command} {path} -o {tmp_path}/out -q {how}")
        (file,) = (tmp_path / "out").rglob("frames*/**/*.parquet" if command == "pipeline" else "frames.parquet")
        found = sorted(pq.ParquetFile(file).read().to_pylist(), key=lambda row: row["time_ns"])
    assert [row["collection_name"] for row in found if row["collection"] is not None] == names


def test_a_system_event_that_was_cut_is_no_change_of_a_document(tmp_path: Path) -> None:
    """All of them are cut behind their keys: the change of the document stays."""
    text = TALK.replace("key=#0961}", f"key=#0961, value={'v' * 90}}}").replace("key=carts", "key=carts-of-the-shop")
    path = saved([each._replace(data=each.data[:115]) for each in packets(said(text))], tmp_path / "cut.pcap")
    rows = [row for row in objects(f"dcpdump key '*' {path}") if row["type"] == "change"]
    found = [(row["seqno"], row["name"], row["key"]) for row in rows]
    assert found == [(seqno, "DCP_MUTATION", key) for seqno, key in ((3, "a"), (4, "b"), (8, "late"))]
