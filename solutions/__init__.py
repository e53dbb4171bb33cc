"""The reference: one module per unit, the only place where an exercise is written by hand.

Each docstring is the contract of its exercise. What a student writes stands between the
``### BEGIN SOLUTION`` and ``### END SOLUTION`` lines; all the rest is in the student's file too.
"""
