"""Simulated training jobs: does `auto` keep up with the best fixed policy, cell by cell?"""
