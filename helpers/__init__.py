"""The parts that more than one notebook uses: attention, GPT, data, training, sampling, ledger, plots, checks."""
