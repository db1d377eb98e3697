from tests.crash.conftest import _matrix, all_clean, matrix, syncing_matrix

__all__ = ["_matrix", "all_clean", "matrix", "syncing_matrix"]
