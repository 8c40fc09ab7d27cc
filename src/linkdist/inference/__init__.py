"""Predictions by ONNX Runtime, without PyTorch: what a service and a small installation run."""
