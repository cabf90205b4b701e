"""Plan ahead: what policies do to a conversation that is only planned, and which parameters past sessions speak for."""

from pages.parts import shell

shell.ensure()

from pages.parts import advising, calculating, controls  # noqa: E402

shown = controls.header_if_any()
if calculating.which() == "advise":
    advising.draw(shown)
else:
    calculating.draw(shown)
