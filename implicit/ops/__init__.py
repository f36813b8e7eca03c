"""Operations with several backends: the readable reference, and the fast forms checked against it."""
