"""Numbers as a sentence has them."""


def counted(n: int, one: str, many: str | None = None) -> str:
    """``1 row``, ``3 rows``."""
    return f"{n:,} {one if n == 1 else many or one + 's'}"
