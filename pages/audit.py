"""Audit and share: the checklist held against the session, any turn's exact messages, and a report to hand on."""

from pages.parts import shell

shell.ensure()

from pages.parts import auditing, controls, sharing  # noqa: E402

shown = controls.header()
auditing.checklist(shown)
auditing.replay(shown)
sharing.draw(shown)
