"""Rules of OpenHands: its condensers."""
