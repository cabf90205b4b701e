"""Rules of Gemini CLI."""
