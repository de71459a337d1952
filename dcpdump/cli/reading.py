"""Reading: one run over captures, frame by frame: what was chosen, where it goes, and what it came to."""

from collections.abc import Iterable, Sequence

from dcpdump.capture import Capture, timeline
from dcpdump.cli.options import Display, Selection
from dcpdump.cli.sink import PipeClosed, Sink
from dcpdump.cli.stop import EndedAtOnce, Terminated
from dcpdump.cli.summary import SHOWN, status_of, summarise
from dcpdump.dissect import Dissector
from dcpdump.errors import OutputError
from dcpdump.net.limits import DEFAULT, Limits
from dcpdump.record import Record
from dcpdump.render import OUTPUTS, View
from dcpdump.render.style import Palette


class Reading:
    """One run over captures: what was chosen, where it goes, and what it came to."""

    #: What it does with frames, as the closing line says.
    _verb = SHOWN

    def __init__(
        self,
        captures: Sequence[Capture],
        chosen: Selection,
        shown: Display,
        sink: Sink,
        limits: Limits = DEFAULT,
        *,
        prompt: bool = False,
    ) -> None:
        self._captures = captures
        self._chosen = chosen
        self._sink = sink
        self._shown_as = shown.shown
        self._redacts = shown.redactor is not None
        self._output = OUTPUTS.get(shown.format, OUTPUTS["table"])
        self._form = shown.format
        self._view = View(shown.value_bytes, Palette(shown.coloured(sink.is_terminal)), file=len(captures) > 1)
        self._dissector = self._dissecting(limits, shown.show_secrets)
        self._shown = 0
        self._interrupted = False
        #: A pipe may still be written to, and a person may be looking: they see each packet's frames at once.
        self._prompt = prompt or sink.is_terminal or any(capture.name == "-" for capture in captures)

    @staticmethod
    def _dissecting(limits: Limits, show_secrets: bool) -> Dissector:
        return Dissector(limits, show_secrets=show_secrets)

    def run(self, summary: str) -> int:
        """It reads everything (or as much as was asked for), and gives the exit code."""
        if self._output.header is not None:
            self._sink.write(self._output.header())
        try:
            self._read()
        except (PipeClosed, OutputError, EndedAtOnce):
            raise
        except BaseException as error:
            self._interrupted = isinstance(error, (KeyboardInterrupt, Terminated))
            self._conclude(summary)  # however it ends, what was done so far is told
            raise
        self._conclude(summary)
        return self._status()

    def _conclude(self, summary: str) -> None:
        """Write what a run came to, behind all of its output."""
        self._sink.flush()
        self._sum_up(summary)

    def _sum_up(self, summary: str) -> None:
        interrupted, verb = self._interrupted, self._verb
        summarise(self._dissector, self._captures, self._shown, summary, interrupted=interrupted, verb=verb)

    def _status(self) -> int:
        return status_of(self._dissector, self._captures)

    def _read(self) -> None:
        for packet in timeline(self._captures):
            self._chosen.begin(packet.ts_ns)
            records = self._dissector.feed(packet)
            if records and self._show(records):
                return
        self._show(self._dissector.drain())

    def _show(self, records: Iterable[Record]) -> bool:
        """It writes those of the records that are wanted; true when there are enough."""
        wrote = False
        for record in records:
            if not self._chosen.accepts(record):
                continue
            self._sink.write(self._output.write(self._shown_as(record), self._view))
            wrote = True
            self._shown += 1
            if self._shown == self._chosen.count:
                return True
        if wrote and self._prompt:
            self._sink.flush()
        return False
