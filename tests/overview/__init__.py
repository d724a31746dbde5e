"""Tests of mngr.overview."""
