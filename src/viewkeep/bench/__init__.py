"""Measurements: what a refresh costs next to the other ways to bring a view up to date."""
