"""What `make.py` is made of: counting and billing, two log writers, a workshop of pretend tools, and four stories."""
