"""The engine behind an OpenAI-compatible HTTP API; starlette and uvicorn load with it."""
