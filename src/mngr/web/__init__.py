"""Pages for people: what tests did, with transcripts and recordings; served, or written as files."""
