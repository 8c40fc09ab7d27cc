"""The HTTP service: FastAPI and ONNX Runtime, with a web page."""
