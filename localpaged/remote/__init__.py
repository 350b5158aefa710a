"""OpenAI-compatible endpoints over HTTP: what they are asked, what they tell, how they fail."""
