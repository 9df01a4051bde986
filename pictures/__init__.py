"""Every figure of the lessons. Widgets, commands, tools and notebooks import it."""
