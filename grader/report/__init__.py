"""Scores as people and programs read them. Changes none of them."""
