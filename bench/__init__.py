"""Measures the grader's speed. Figures are ratios within one run: machines differ."""
