"""`./portal`: runs the whole portal, its tests and its checks on one machine, without any service installed.

Nothing here imports Django: the launcher starts the processes that do, and stays small. One process, one thread:
children are forked from the thread that waits for them, so that the kernel ends them when the launcher dies.
"""
