"""The dashboard that `localpaged stats` opens: one running engine at a time, seen from outside."""
