"""One answer to each exercise of notebook 07. Yours may look different and be as good: the checks decide."""


def my_layer_norm(x, gain, shift):
    mean, variance = x.mean(-1, keepdim=True), x.var(-1, keepdim=True, unbiased=False)
    return (x - mean) / (variance + 1e-5).sqrt() * gain + shift


def my_block(x, norm1, attention, norm2, mlp):
    x = x + attention(norm1(x))
    return x + mlp(norm2(x))


def my_mlp_share(V, T, L, C):
    return 8 * C * C * L / (V * C + T * C + L * (12 * C * C + 2 * C) + C)
