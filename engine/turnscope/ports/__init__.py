"""What other tools compute, as pure functions: one folder per tool. The rules of that tool import them."""
