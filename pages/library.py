"""The library: open a file, a sample, or a session that Claude Code keeps; what was opened before, in numbers."""

from pages.parts import shell

shell.ensure()

from pages.parts import controls, listing  # noqa: E402

shown = controls.header_if_any()
listing.upload()
if shown:
    listing.conversations(shown)
listing.opened_before()
listing.found()
if shown:
    listing.notes(shown)
listing.forget()
