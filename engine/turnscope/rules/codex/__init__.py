"""Rules of Codex: its compaction, and that of the API that it is built for."""
