"""Compensation: what makes up for the heads that were pruned."""
