"""Measures on a communicator's ranks what decisions go by.

measuring  a case by a method
search     what to measure next
session    all of it, within a budget
"""
