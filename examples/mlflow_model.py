"""A LinkDist model as an MLflow model: log it with its estimates, and load it anywhere.

MLflow stores this file as the code of the model and the model directory beside it, so nothing is
pickled. The page docs/mlflow.md explains it.
Usage: python mlflow_model.py MODEL NODES NAME
"""

import os
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

# MLflow sends usage data to its developers unless this is set before it is imported.
os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")

import mlflow
import pandas as pd
from mlflow.models import ModelSignature, infer_signature, set_model
from mlflow.pyfunc import PythonModel
from mlflow.types import ParamSchema, ParamSpec

import linkdist
from linkdist.prediction import predict_table

ENDS = ("sources", "targets")
"""The parameters of a request: the ids at the two ends of each link among its rows."""


class LinkDistModel(PythonModel):
    """Predicts a data frame of nodes from features or, if links are given, with links."""

    def load_context(self, context):
        """Read the model directory; digests show whether it was changed."""
        self.model = linkdist.load_model(context.artifacts["model"])

    def predict(self, context, model_input: pd.DataFrame, params=None):
        """Return a frame with the columns of `linkdist predict`."""
        links = {end: list((params or {}).get(end, [])) for end in ENDS}
        return predicted(self.model, model_input, links if any(links.values()) else None)


def predicted(model, nodes, links=None):
    with TemporaryDirectory() as folder:
        out = Path(folder, "predictions.parquet")
        predict_table(model, nodes, out, edges=links)
        return pd.read_parquet(out)


def scores(estimates):
    """The estimates for new rows; there are none if the training held out no labels."""
    measure, rows = estimates.get("measure", "accuracy"), estimates.get("new_rows", [])
    return {row["name"].replace("this model,", measure): row["value"] for row in rows}


def log(directory, nodes, name):
    """Log and register a model directory; `nodes` shows the types of its columns."""
    model = linkdist.load_model(directory)
    example = nodes[[model.about["id"], *model.encoders.names]]
    columns = infer_signature(example, predicted(model, example))
    links = ParamSchema([ParamSpec(end, "string", default=[], shape=(-1,)) for end in ENDS])
    with mlflow.start_run():
        mlflow.log_params({key: model.about.get(key) for key in ("label", "method", "seed")})
        mlflow.log_metrics(scores(model.about.get("estimates") or {}))
        return mlflow.pyfunc.log_model(
            name=name,
            registered_model_name=name,
            python_model=__file__,
            artifacts={"model": str(directory)},
            signature=ModelSignature(columns.inputs, columns.outputs, links),
            input_example=(example.head(2), {end: [] for end in ENDS}),
            pip_requirements=[f"linkdist=={linkdist.__version__}", "pandas"],
        )


set_model(LinkDistModel())

if __name__ == "__main__":
    directory, table, name = sys.argv[1:]
    logged = log(directory, pd.read_csv(table), name)
    print(f"models:/{name}/{logged.registered_model_version}")
