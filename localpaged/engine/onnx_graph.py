"""A graph for onnxruntime in the making: names of values in, names of values out."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime
from onnx import TensorProto, helper

OPSET, IR_VERSION = 21, 10
CONTRIB = "com.microsoft"
CONTRIB_OPERATORS = {"MatMulIntegerToFloat", "QuickGelu", "RotaryEmbedding"}
IN_MEMORY = "memory"
MOST_THREADS = 8
"""A session has threads of its own, and a decoder has a session for each layer."""

Array = npt.NDArray[Any]


class Graph:
    """Nodes, constants, weights, inputs and outputs; opened once. One thread."""

    def __init__(self) -> None:
        self._nodes: list[onnx.NodeProto] = []
        self._constants: list[onnx.TensorProto] = []
        self._weights: dict[str, onnxruntime.OrtValue] = {}
        self._inputs: list[onnx.ValueInfoProto] = []
        self._outputs: list[str] = []
        self._count = 0

    def input(self, name: str, *shape: int | str, is_integer: bool = False) -> str:
        """Add an input, float32 or int64, of a shape whose named sizes are free."""
        kind = TensorProto.INT64 if is_integer else TensorProto.FLOAT
        self._inputs.append(helper.make_tensor_value_info(name, kind, shape))
        return name

    def output(self, *names: str) -> None:
        """Return these from a call, in this order, behind those named before."""
        self._outputs += names

    def constant(self, numbers: Array | np.generic | list[int]) -> str:
        """Add a small constant; it is copied."""
        name = self._new_name()
        self._constants.append(onnx.numpy_helper.from_array(np.asarray(numbers), name))
        return name

    def weight(self, numbers: Array) -> str:
        """Add int8 weights [in, out]; they are handed over, not copied into the graph."""
        name = self._new_name()
        tensor = TensorProto(
            name=name,
            data_type=TensorProto.INT8,
            dims=numbers.shape,
            data_location=TensorProto.EXTERNAL,
        )
        for key, value in (("location", IN_MEMORY), ("offset", 0), ("length", numbers.nbytes)):
            tensor.external_data.add(key=key, value=str(value))
        self._constants.append(tensor)
        self._weights[name] = onnxruntime.OrtValue.ortvalue_from_numpy(numbers)
        return name

    def node(self, operator: str, *inputs: str, **attributes: Any) -> str:
        """Add an operator with one output and return its name."""
        (name,) = self.nodes(operator, 1, *inputs, **attributes)
        return name

    def nodes(self, operator: str, num_outputs: int, *inputs: str, **attributes: Any) -> list[str]:
        """Add an operator and return the names of its outputs."""
        names = [self._new_name() for _ in range(num_outputs)]
        domain = CONTRIB if operator in CONTRIB_OPERATORS else ""
        self._nodes.append(helper.make_node(operator, inputs, names, domain=domain, **attributes))
        return names

    def open(self, *, num_threads: int) -> Part:
        """Return the graph ready to be called."""
        outputs = [helper.make_empty_tensor_value_info(name) for name in self._outputs]
        graph = helper.make_graph(
            self._nodes, "part", self._inputs, outputs, initializer=self._constants
        )
        opsets = [helper.make_opsetid("", OPSET), helper.make_opsetid(CONTRIB, 1)]
        model = helper.make_model(graph, opset_imports=opsets, ir_version=IR_VERSION)
        options = _options(num_threads)
        options.add_external_initializers(list(self._weights), list(self._weights.values()))
        session = onnxruntime.InferenceSession(
            model.SerializeToString(), options, providers=["CPUExecutionProvider"]
        )
        self._weights.clear()
        return Part(session, tuple(self._outputs))

    def _new_name(self) -> str:
        self._count += 1
        return f"v{self._count}"


class Part:
    """An opened graph. Holds its weights packed; engine thread only."""

    __slots__ = ("_outputs", "_session")

    def __init__(self, session: onnxruntime.InferenceSession, outputs: tuple[str, ...]) -> None:
        self._session = session
        self._outputs = outputs

    def __call__(self, inputs: dict[str, Array]) -> list[Array]:
        """Compute the outputs from all inputs by name."""
        results: list[Array] = self._session.run(self._outputs, inputs)
        return results


def _options(num_threads: int) -> onnxruntime.SessionOptions:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = min(num_threads, MOST_THREADS)
    # Threads that wait must leave the cores to torch's, and to other programs.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    # A pool of memory for each session would hold the longest prompt's numbers once a layer.
    options.enable_cpu_mem_arena = False
    # What the graph says is what is computed; nothing is left to be simplified.
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return options
