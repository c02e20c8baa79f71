"""Benchmarks that print ratios against a named floor, measured in one run. `./portal bench NAME [--json]`."""
