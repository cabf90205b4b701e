"""Rules of Codex: its compaction, and that of the API that it uses."""
