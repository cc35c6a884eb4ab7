"""Operations that several route handlers share."""
