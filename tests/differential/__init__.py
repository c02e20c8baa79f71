"""The quota tree and the admission engine against a real Kueue: generated setups, what Kueue made of them, and ours."""
