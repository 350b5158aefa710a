"""A chat as lines: cells for its messages, a document that windows them. Nothing of Textual."""
