"""Who does the research: Python functions, any command, a chat model with tools. Their words are never evidence."""
