"""The command language: grammar, parser, AST, and binding to the schemas of tables."""
