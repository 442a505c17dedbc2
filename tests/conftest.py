from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_digits


@pytest.fixture(scope="session")
def digits() -> tuple[np.ndarray, np.ndarray]:
    """Real responses with string labels: the 64 pixels of scikit-learn's 1,797 digits."""
    responses, labels = load_digits(return_X_y=True)
    return responses, labels.astype(str)
