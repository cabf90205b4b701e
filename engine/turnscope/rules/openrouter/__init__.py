"""Rules of OpenRouter: its middle-out compression."""
