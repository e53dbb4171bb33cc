"""The student's code, made callable: the only stage in which it runs."""
