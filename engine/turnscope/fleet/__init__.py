"""Many sessions at once: from files of any storage to tables, by one task per file on one machine or on a cluster."""
