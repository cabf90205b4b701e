"""What the pages share: shell, state, theme, controls, browser components and cards."""
