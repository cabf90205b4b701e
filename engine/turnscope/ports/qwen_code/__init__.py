"""Qwen Code: where its compaction cuts."""
