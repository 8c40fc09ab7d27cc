"""What a training leaves: the model directory, ONNX, the model card."""
