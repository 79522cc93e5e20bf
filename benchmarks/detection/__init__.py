"""How small a wrong element the checks still find, and where they say it is: on simulated faults."""
