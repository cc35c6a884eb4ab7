"""Files of a store's folder other than log and segments, and the disk they are on."""
