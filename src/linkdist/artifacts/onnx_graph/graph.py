"""Build an ONNX graph from single operations."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from linkdist.errors import OptionError

OPSET, IR = 17, 8
"""Versions of the operators and of the file format, old enough for most runtimes."""

LARGEST = 2**31
"""Largest size of an ONNX file in bytes."""

INNER = "linkdist."
"""Prefix of the names inside a graph."""

Untyped: TypeAlias = Any
"""An object of an optional package, or of one without types."""

Array: TypeAlias = npt.NDArray[Any]


class GraphBuilder:
    """Collects the inputs, operations, weights and outputs of a graph.

    Parameters
    ----------
    onnx : module
        The package `onnx`, which is optional.

    Examples
    --------
    >>> import onnx
    >>> graph = GraphBuilder(onnx)
    >>> x = graph.input("x", "FLOAT", 2)
    >>> y = graph.add("Mul", x, np.float32(3), name="y")
    >>> graph.output(y, "FLOAT", 2)
    >>> import onnxruntime
    >>> session = onnxruntime.InferenceSession(graph.file({}))
    >>> session.run(["y"], {"x": np.ones((1, 2), np.float32)})[0].tolist()
    [[3.0, 3.0]]
    """

    def __init__(self, onnx: Untyped) -> None:
        self._onnx = onnx
        self._inputs: list[Untyped] = []
        self._nodes: list[Untyped] = []
        self._weights: list[Untyped] = []
        self._outputs: list[Untyped] = []
        self._domains: dict[str, int] = {"": OPSET}

    def input(self, name: str, kind: str, *shape: int) -> str:
        """Declare an input of n rows of a shape; `kind` is a type of ONNX."""
        self._inputs.append(self._value(name, kind, ["n", *shape]))
        return name

    def output(self, name: str, kind: str, *shape: int) -> None:
        """Declare an output of n rows of a shape."""
        self._outputs.append(self._value(name, kind, ["n", *shape]))

    def constant(self, name: str, values: Array) -> None:
        """Declare an output that is always the same text."""
        self.add("Identity", values, name=name)
        self._outputs.append(self._value(name, "STRING", list(values.shape)))

    def add(
        self,
        kind: str,
        *inputs: str | Array | np.generic,
        name: str = "",
        domain: str = "",
        **attributes: Untyped,
    ) -> str:
        """Append an operation and return the name of its output; arrays become weights."""
        names = [part if isinstance(part, str) else self._weight(part) for part in inputs]
        output = name or f"{INNER}{len(self._nodes)}"
        self._domains.setdefault(domain, 1)
        node = self._onnx.helper.make_node(kind, names, [output], domain=domain, **attributes)
        self._nodes.append(node)
        return output

    def cast(self, value: str, kind: str) -> str:
        """Append a conversion to another type of ONNX."""
        return self.add("Cast", value, to=getattr(self._onnx.TensorProto, kind))

    def file(self, metadata: Mapping[str, str]) -> bytes:
        """The content of the file, after a check of its structure."""
        helper = self._onnx.helper
        parts = (self._nodes, "linkdist", self._inputs, self._outputs, self._weights)
        opsets = [helper.make_opsetid(*domain) for domain in self._domains.items()]
        options = {"opset_imports": opsets, "ir_version": IR, "producer_name": "linkdist"}
        model = helper.make_model(helper.make_graph(*parts), **options)
        helper.set_model_props(model, metadata)
        if model.ByteSize() >= LARGEST:
            raise OptionError(
                f"the model takes {model.ByteSize():,} bytes; an ONNX file holds {LARGEST:,}. "
                "Train fewer replicas, or on fewer features."
            )
        self._onnx.checker.check_model(model, full_check=True)
        content: bytes = model.SerializeToString()
        return content

    def _weight(self, value: Array | np.generic) -> str:
        name = f"{INNER}weight.{len(self._weights)}"
        self._weights.append(self._onnx.numpy_helper.from_array(np.asarray(value), name))
        return name

    def _value(self, name: str, kind: str, shape: list[int | str]) -> Untyped:
        number = getattr(self._onnx.TensorProto, kind)
        return self._onnx.helper.make_tensor_value_info(name, number, shape)
