"""Where agents can live, one module a provider."""
