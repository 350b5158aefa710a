"""The gated activations of a decoder's MLP: SwiGLU and GeGLU."""
