"""Rules that the Messages API's server follows: context edits and compaction. What is sent stays whole."""
