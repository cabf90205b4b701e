"""Rules of mini-swe-agent: how it shows the output of a command."""
