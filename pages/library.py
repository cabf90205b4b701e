"""The library: open a file, a sample, or any session that a tool keeps; search them all; what they cost and filled."""

from pages.parts import shell

shell.ensure()

from pages.parts import chat_beside, controls, everything, indexing, listing, memory_panel, seeking, totals  # noqa: E402

shown = controls.header_if_any()
indexing.chats()
listing.upload()
if shown:
    listing.conversations(shown)
indexing.draw()  # under the folder whose button starts it
seeking.draw()
rows = everything.draw(listing.show)
totals.draw()
if shown:
    listing.notes(shown)
listing.forget(rows)
memory_panel.section(chat_beside.store)
