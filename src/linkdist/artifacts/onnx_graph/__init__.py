"""ONNX graphs: the encoders of columns, the network and the decision as operations."""
