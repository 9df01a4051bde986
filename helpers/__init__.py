"""What the notebooks share. Reading order: attention, gpt, data, optim, loss, training, sampling."""
