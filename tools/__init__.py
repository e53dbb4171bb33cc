"""What maintainers run, and what sets up a machine."""
