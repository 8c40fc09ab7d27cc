"""Predict with ONNX Runtime and NumPy alone: python onnx_predict.py model.onnx nodes.csv.

For a model of numeric columns; one of features takes {"features": an (n, d) float32 array}.
"""

import json
import sys

import numpy as np
import onnxruntime

session = onnxruntime.InferenceSession(sys.argv[1])
classes = json.loads(session.get_modelmeta().custom_metadata_map["classes"])
as_they_are = {"deletechars": "", "replace_space": " "}
nodes = np.genfromtxt(sys.argv[2], delimiter=",", names=True, ndmin=1, **as_they_are)
columns = {column.name: nodes[column.name] for column in session.get_inputs()}
for p in session.run(["probabilities"], columns)[0]:
    print(f"{classes[p.argmax()]}, {p.max():.1%}")
