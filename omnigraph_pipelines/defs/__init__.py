"""What the code location is made of: one folder a concern, with its asset, job, sensor and schedule side by side."""
