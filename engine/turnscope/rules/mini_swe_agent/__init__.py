"""Rules of mini-swe-agent: how it shows what a command printed."""
