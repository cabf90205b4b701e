"""Rules that the server of the Messages API carries out: context edits and compaction. What is sent does not change."""
