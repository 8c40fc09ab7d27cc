"""Encode text with a model of the user, such as one of sentence-transformers."""

from __future__ import annotations

from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from linkdist.errors import ModelError
from linkdist.tables.encoders import Standardised
from linkdist.tables.parsing import Doubles, as_mask
from linkdist.tables.validation import Problems


class TextEncoder(Protocol):
    """A model that turns texts into vectors, such as one of sentence-transformers."""

    def encode(self, texts: list[str], /) -> npt.ArrayLike:
        """One vector for each text, as an (n, k) array."""


class Embedding(Standardised):
    """Standardises the vectors that a model of the user computes from text.

    The model is not saved; a loaded encoder needs it again.

    Attributes
    ----------
    encoder : TextEncoder or None
        The model.

    Examples
    --------
    >>> class Lengths:
    ...     def encode(self, texts):
    ...         return [[len(text)] for text in texts]
    >>> title = Embedding("title")
    >>> title.encoder = Lengths()
    >>> title.partial_fit(pa.array(["a", "abc"])).transform(pa.array(["abc", None])).tolist()
    [[1.0], [0.0]]
    """

    kind = "embedding"
    encoder: TextEncoder | None = None

    def parse(self, column: pa.Array, first_row: int, problems: Problems) -> Doubles:
        """Vectors of the texts, (n, width), NaN where missing."""
        if self.encoder is None:
            raise ModelError(
                f"column {self.name!r} was encoded with a text encoder, which a model directory "
                "does not contain. Pass it in Python: linkdist.load_model(directory, "
                "text_encoder=...)."
            )
        text = self._parse_text(column, first_row, problems)
        present = as_mask(text.is_valid())
        vectors = np.asarray(self.encoder.encode(text.fill_null("").to_pylist()), np.float64)
        expected = (len(text), self.width or (vectors.shape[1] if vectors.ndim == 2 else 1))
        if vectors.shape != expected or not np.isfinite(vectors).all():
            rule = f"the text encoder must return finite vectors of shape {expected}"
            problems.add(f"{rule}; for column {self.name!r} it returned {vectors.shape}")
            vectors = np.zeros(expected)
        return np.where(present[:, None], vectors, np.nan)
