"""Time series: records by source and time, with late arrivals."""
