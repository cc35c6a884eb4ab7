"""Values of what the grammar reads: a function for each of its rules, called from inside out."""
