"""What the user can do: every action of the key table, by key, palette or slash command."""
