"""A filter wants the same frames of an index as of ``read``."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dcpdump.batch.filter import masks
from dcpdump.capture import open_capture
from dcpdump.cli.options import Selection, selection
from dcpdump.index.capture_index import CaptureIndex
from dcpdump.record import Record
from tests.batch.test_filter import CHOICES, OPTIONS
from tests.bench.captures import capture
from tests.index.test_frames import SAMPLES, dissected, options

Indexed = tuple[CaptureIndex, list[Record]]


@pytest.fixture(scope="module")
def indexed(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Return an index of several captures and their frames."""
    paths = [str(capture(tmp_path_factory.mktemp("matching"), "wire", 1200, 64)), *map(str, SAMPLES)]
    with CaptureIndex([open_capture(path) for path in paths], options(100_000)) as index:
        index.finish()
        yield index, dissected(paths)


def chosen_by(texts: dict[str, Any]) -> Selection:
    return selection(dict.fromkeys(OPTIONS) | {"problems": False} | texts)


def check(indexed: Indexed, texts: dict[str, Any], first: int = 1) -> int:
    index, records = indexed
    chosen = chosen_by(texts)
    asked = masks(chosen.texts, chosen.filter, window=chosen.window)
    found = [number for step in index.matching(asked, first) for number in step.numbers.tolist()]
    assert found == [record.number for record in records if record.number >= first and chosen.accepts(record)]
    return len(found)


@pytest.mark.parametrize("texts", CHOICES, ids=str)
def test_a_filter_wants_the_frames_that_read_shows(indexed: Indexed, texts: dict[str, Any]) -> None:
    check(indexed, texts)


@settings(max_examples=25, deadline=None)
@given(st.lists(st.sampled_from(CHOICES), min_size=1, max_size=3), st.integers(1, 3000))
def test_any_clauses_together_from_any_frame_on(indexed: Indexed, several: list[dict[str, Any]], first: int) -> None:
    check(indexed, {name: text for texts in several for name, text in texts.items()}, first)


def test_headers_are_answered_without_decoding(tmp_path: Path) -> None:
    path = tmp_path / "gone.pcap"
    path.write_bytes(Path(SAMPLES[0]).read_bytes())
    with CaptureIndex([open_capture(str(path))], options(4096)) as index:
        index.finish()
        path.unlink()
        chosen = chosen_by({"opcode": "!noop", "kind": "request"})
        found = [each for step in index.matching(masks(chosen.texts, chosen.filter)) for each in step.numbers.tolist()]
        assert 0 < len(found) < index.frames
