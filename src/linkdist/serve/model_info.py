"""A model told as JSON: what the page and other programs need to ask it well."""

from __future__ import annotations

from typing import Any

from linkdist.artifacts.manifest import CURVE, REPORT
from linkdist.artifacts.model_card import card
from linkdist.serve.reload import Current
from linkdist.serve.settings import Settings
from linkdist.tables.encoders import Categorical, Encoder, Numeric

VALUES = 100
"""Values of a categorical column that are told; any other text may be sent as well."""

TRAINING = ("method", "epochs", "seconds", "date")


def described(current: Current, settings: Settings) -> dict[str, Any]:
    """What a model is, as `GET /v1/model` tells it."""
    engine, refused = current.engine, current.refused
    header = engine.header
    about, encoders = header.about, header.encoders
    state = None if encoders is None else encoders.state()
    return {
        "name": engine.name,
        "version": header.version,
        "loaded": engine.loaded.isoformat(timespec="seconds"),
        "classes": list(header.classes),
        "features": header.shape.features,
        "replicas": header.shape.replicas,
        "label": about.get("label"),
        "id": about.get("id"),
        "columns": None if encoders is None else [_column(one) for one in encoders.columns],
        "scores": about.get("scores", {}),
        "data": about.get("data", {}),
        "training": {key: about[key] for key in TRAINING if key in about},
        "card": card(engine.name, about, header.classes, state),
        "has_curve": CURVE in engine.extras,
        "has_report": REPORT in engine.extras,
        "limits": {
            "rows": settings.rows,
            "body_bytes": settings.body_bytes,
            "file_bytes": settings.file_bytes,
            "seconds": settings.seconds,
        },
        "refused": refused and {"at": refused.at.isoformat(), "reason": refused.reason},
    }


def _column(encoder: Encoder) -> dict[str, Any]:
    told: dict[str, Any] = {"name": encoder.name, "kind": encoder.kind}
    if isinstance(encoder, Numeric):
        told["example"] = float(f"{encoder.mean:.4g}")
    elif isinstance(encoder, Categorical):
        told["values"] = list(encoder.categories[:VALUES])
    elif encoder.kind == "vector":
        told["width"] = encoder.width
    return told
