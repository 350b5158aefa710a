"""KV memory as lines and cells: what the blocks screen shows. Nothing of Textual."""
