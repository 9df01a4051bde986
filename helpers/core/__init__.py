"""What the series builds. Read it after notebook 08: attention, gpt, data, optim, training, sampling, modern.

Every room may import it; it imports support only.
"""
