"""KV of chats in files of the cache folder, it outlives the process. No engine, no torch."""
