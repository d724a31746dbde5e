"""What makes a claim believable: findings about edits, from their text alone. Nothing here runs anything."""
