"""A simulated GPU cluster: the Kubernetes API, the Prometheus API and DCGM's exporter over real HTTP, on loopback.

Input: a scenario (data files and a seed) or a folder of recorded lists; output: what the unmodified `kubernetes` and
`prometheus-api-client` libraries, kubectl or a real Prometheus can read. No Django.
"""
