"""Verification, scrub and repair of a store with damaged files."""
