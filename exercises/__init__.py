"""Your work goes here: one module per unit."""
