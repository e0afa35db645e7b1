"""Decisions that were measured: which algorithm, cut how finely, for which message, by machine.

times      what was measured, and kept as JSON lines
fit        from times to rules
rules      the tuning file that jobs go by
machine    what tells one machine from another

Source: Pjesivac-Grbovic, PhD thesis, Tennessee (2007), chapters 5 and 6 (TUNE07).
"""
