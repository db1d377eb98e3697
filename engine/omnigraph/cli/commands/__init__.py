"""One module a command. Each has ``run`` (or ``run_<verb>`` in a group): arguments, one façade call, an ``Answer``."""
