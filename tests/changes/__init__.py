"""Change requests from asked for to observed, over real rows."""
