"""Campaigns whose sources answer by themselves, from the first order to the last."""
