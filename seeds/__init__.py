"""Seed programs: one file each, parsed and never imported."""
