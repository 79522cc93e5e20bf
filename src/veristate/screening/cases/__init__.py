"""Cases that come with the package: pins, tables and defaults, no torch."""
