"""The layout of the screen, in Textual's style sheets; colours are the terminal's own sixteen."""

CSS = """
Screen { background: ansi_default; color: ansi_default; layout: vertical; }
#top { height: 1; }
#filter, #note { height: 1; display: none; }
#filter.shown, #note.shown { display: block; }
#note { color: ansi_yellow; }
#note.error { color: ansi_red; text-style: bold; }
#asking { height: 1; display: none; }
#asking.shown { display: block; }
#prompt { width: auto; padding: 0 1 0 1; text-style: bold; }
#bar { width: 1fr; border: none; height: 1; padding: 0; background: ansi_default; color: ansi_default; }
#bar:focus { background: ansi_default; }
#list, .tab { height: 1fr; }
.tab { display: none; }
#panes { height: 45%; min-height: 7; max-height: 22; layout: horizontal; }
#fields, #hexes, #ladder, #page { border: round ansi_blue; height: 1fr; width: 1fr; }
#fields:focus, #hexes:focus, #ladder:focus, #page:focus { border: round ansi_yellow; }
#hexes { width: 80; }
#ladder, #page { display: none; }
.narrow #hexes { width: 1fr; }
.narrow.tall #panes { layout: vertical; height: 55%; max-height: 44; }
.narrow.short #hexes { display: none; }
.narrow.short.bytes #hexes { display: block; }
.narrow.short.bytes #fields { display: none; }
.explaining #hexes, .explaining.narrow.short.bytes #hexes { display: none; }
.explaining #page { display: block; }
.explaining.narrow.short #page { display: none; }
.explaining.narrow.short.bytes #page { display: block; }
.tabbed #list { display: none; }
.tabbed #fields, .tabbed #hexes { display: none; }
.tabbed.narrow.short.bytes #hexes { display: none; }
.tabbed #page { display: block; }
.talking #fields, .talking #hexes { display: none; }
.talking.narrow.short.bytes #hexes { display: none; }
.talking #ladder { display: block; }
.talking.explaining #page, .talking.explaining.narrow.short.bytes #page { display: none; }
.zoom-list #panes { display: none; }
.zoom-panes #list, .zoom-panes .tab { display: none; }
.zoom-panes #panes, .zoom-panes.narrow.tall #panes { height: 1fr; max-height: 100%; }
#hints { height: 1; }
#small { display: none; }
.tiny > * { display: none; }
.tiny > #small { display: block; height: 1; }
TextDialog, KeyQuestion { align: center middle; background: ansi_default; }
.box { border: round ansi_yellow; height: 90%; width: 90%; max-width: 110; }
"""
