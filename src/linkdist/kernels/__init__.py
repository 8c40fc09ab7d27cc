"""Fast mathematics: Numba and Triton, with plain PyTorch as the reference."""
