"""Commands that inspect, verify, repair, back up and measure a store."""
