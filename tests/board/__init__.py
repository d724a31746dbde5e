"""Tests of mngr.board."""
