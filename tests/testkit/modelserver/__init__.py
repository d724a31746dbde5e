"""Tests of the scripted model."""
