"""One turn of a chat = store + engine. The only package that knows both; free of any UI."""
