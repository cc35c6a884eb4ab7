"""Builds the AST from the parse tree: a function for each rule of the grammar."""
