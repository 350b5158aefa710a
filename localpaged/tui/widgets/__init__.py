"""Parts of screens. They draw and post messages; they decide nothing."""
