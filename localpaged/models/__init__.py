"""Which models exist, how they are fetched, and how their files become tensors and tokens.

Opening a model reads its config, tokenizer and chat template and checks every tensor's place;
it needs no torch. Weights are loaded separately, on the one thread that runs torch.
"""
