"""Remote endpoints as models of the chats: an EnginePort, a shelf and models around `remote`."""
