"""List the keys of the screen in one table, which binds them, which help prints, and whose keys tests press.

Keys have Textual's names; ``shown`` has them as people write them.
"""

from typing import NamedTuple


class KeyEntry(NamedTuple):
    """Keys, their action, and its description."""

    keys: str  #: separated by blanks
    shown: str
    action: str
    text: str

    @property
    def bound(self) -> str:
        """Return the keys as a binding has them."""
        return ",".join("comma" if key == "," else key for key in self.keys.split())


#: Title of a group → its keys, in the order of help.
KEYS: dict[str, tuple[KeyEntry, ...]] = {
    "Move": (
        KeyEntry("up k", "↑ k", "pane('move', -1)", "one up"),
        KeyEntry("down j", "↓ j", "pane('move', 1)", "one down"),
        KeyEntry("pageup ctrl+b", "PgUp ^B", "pane('page', -1)", "a screen up"),
        KeyEntry("pagedown ctrl+f", "PgDn ^F", "pane('page', 1)", "a screen down"),
        KeyEntry("home g", "Home g", "pane('edge', -1)", "to the first"),
        KeyEntry("end G", "End G", "pane('edge', 1)", "to the last"),
        KeyEntry("left h", "← h", "pane('aside', -1)", "a byte back in the bytes; elsewhere the text to the left"),
        KeyEntry("right l", "→ l", "pane('aside', 1)", "a byte on in the bytes; elsewhere the text to the right"),
        KeyEntry(":", ":", "ask_place", "go to a frame, a time, +30s from the start, 40 %"),
        KeyEntry("tab", "Tab", "do('screen', 'turn', 1)", "the next pane"),
        KeyEntry("shift+tab", "⇧Tab", "do('screen', 'turn', -1)", "the previous pane"),
        KeyEntry("enter", "Enter", "enter", "in a tab: the frames of the row; in a dialogue: the frame"),
        KeyEntry("escape", "Esc", "step_back", "step back: a dialogue, a filter, a jump"),
        KeyEntry("alt+left", "Alt-←", "step_back", "the place before"),
        KeyEntry("alt+right", "Alt-→", "do('browser', 'forward')", "the place that Alt-← left"),
    ),
    "Jump": (
        KeyEntry("r", "r", "do('browser', 'answer')", "from a request to its response, and back"),
        KeyEntry("n", "n", "do('browser', 'of_stream', 1)", "the next frame of this stream"),
        KeyEntry("N", "N", "do('browser', 'of_stream', -1)", "the previous frame of this stream"),
        KeyEntry("s", "s", "do('browser', 'snapshot', 1)", "the next snapshot of this stream"),
        KeyEntry("S", "S", "do('browser', 'snapshot', -1)", "the previous snapshot of this stream"),
        KeyEntry("x", "x", "do('browser', 'marker')", "the marker of the snapshot that the frame is in"),
        KeyEntry("p", "p", "do('browser', 'problem', 1)", "the next row with a problem, a refusal or lost bytes"),
        KeyEntry("P", "P", "do('browser', 'problem', -1)", "the previous row with one"),
    ),
    "Choose": (
        KeyEntry("/", "/", "filter", "the filter: the options of read; ↑ its history, Tab completes"),
        KeyEntry("*", "*", "do('browser', 'filter_field', '')", "only frames with the value of the selected field"),
        KeyEntry("!", "!", "do('browser', 'filter_field', '!')", "no frames with the value of the selected field"),
        KeyEntry("f", "f", "do('browser', 'only_stream')", "only this stream"),
        KeyEntry("F", "F", "do('browser', 'only_connection')", "only this connection"),
        KeyEntry("\\", "\\", "search", "search a text in what is listed, hiding nothing"),
        KeyEntry(".", ".", "do('browser', 'find', 1)", "the next row with that text"),
        KeyEntry(",", ",", "do('browser', 'find', -1)", "the previous row with that text"),
    ),
    "Show": (
        KeyEntry("1", "1", "tab('frames')", "frames"),
        KeyEntry("2", "2", "tab('streams')", "streams, those in trouble first"),
        KeyEntry("3", "3", "tab('findings')", "findings: broken rules"),
        KeyEntry("4", "4", "tab('connections')", "connections"),
        KeyEntry("o", "o", "do('pages', 'sort')", "in a tab: sort by the next column"),
        KeyEntry("e", "e", "do('pages', 'explain')", "beside the frame: the rule that it breaks, or its message"),
        KeyEntry("d", "d", "do('pages', 'dialogue')", "the dialogue of this stream"),
        KeyEntry("z", "z", "do('screen', 'zoom')", "one pane over all, and back"),
        KeyEntry(
            "t",
            "t",
            "do('screen', 'next_times')",
            "times: clock; since the start, the row above, the marked row",
        ),
        KeyEntry("v", "v", "do('screen', 'next_view')", "the bytes as on the wire, decompressed, as JSON"),
        KeyEntry("i", "i", "about", "what the capture is, and what of it is damaged"),
        KeyEntry("L", "L", "follow", "stay at the end; any move up stops that"),
    ),
    "Take along": (
        KeyEntry("m", "m", "do('marks', 'mark')", "mark the frame"),
        KeyEntry("u", "u", "do('marks', 'unmark')", "unmark the frame"),
        KeyEntry("M", "M", "do('marks', 'mark_range')", "mark all from the last marked frame to this one"),
        KeyEntry("'", "'", "do('marks', 'next')", "the next marked frame"),
        KeyEntry("w", "w", "write", "write marked frames, else the listed: .pcapng (as carve), .ndjson, .txt, .csv"),
        KeyEntry("y", "y", "copy", "copy: the field, the bytes, the frame, the command line"),
    ),
    "Leave": (
        KeyEntry("?", "?", "help", "these keys"),
        KeyEntry("q ctrl+c", "q ^C", "leave", "leave; marks are asked about once"),
        KeyEntry("ctrl+z", "^Z", "suspend_process", "to the background"),
    ),
}

#: The text of the last line of the screen.
HINTS = (
    ("/", "filter"),
    ("r", "answer"),
    ("n N", "stream"),
    ("s", "snapshot"),
    ("d", "dialogue"),
    ("m", "mark"),
    ("w", "write"),
    ("?", "help"),
    ("q", "quit"),
)


def all_keys() -> list[KeyEntry]:
    """Return the rows of the table."""
    return [key for group in KEYS.values() for key in group]


def help_lines() -> list[tuple[str, str]]:
    """Return the table as lines: keys, and what they do; titles have no text."""
    out: list[tuple[str, str]] = []
    for title, keys in KEYS.items():
        out += [(title, "")] if not out else [("", ""), (title, "")]
        out += [(key.shown, key.text) for key in keys]
    return out
