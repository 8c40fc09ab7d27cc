"""The HTTP service: ONNX Runtime behind FastAPI, and a page for people."""
