"""What is kept in SQLite: chats and opened sessions, as rows and bytes. Knows no page and no network."""
