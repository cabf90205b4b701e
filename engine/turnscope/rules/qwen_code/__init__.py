"""Rules of Qwen Code: its compaction."""
