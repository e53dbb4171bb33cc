"""Makes what leaves the maintainer's machine."""
