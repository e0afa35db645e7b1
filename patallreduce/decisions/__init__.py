"""Decisions that were measured: which algorithm, cut how finely, for which message, by machine.

times      what was measured, and kept as JSON lines
fit        from times to rules
rules      the tuning file that jobs go by
machine    what tells one machine from another

functions  decisions from a map of times, and what they cost
quadtree   a map in squares
decision_tree, tree_by_gain, tree_by_penalty
           a map by tests, grown as C4.5 does it or by what choices cost
code       either of them as C++ or Python

Source: Pjesivac-Grbovic, PhD thesis, Tennessee (2007), chapters 5 and 6 (TUNE07).
"""
