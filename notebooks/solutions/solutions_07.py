"""One answer to each exercise of notebook 07. Yours may look different and be as good: the checks decide."""


def my_layer_norm(x, gain, shift):
    # Each row by itself; the variance divides by C.
    mean, variance = x.mean(-1, keepdim=True), x.var(-1, keepdim=True, unbiased=False)
    return (x - mean) / (variance + 1e-5).sqrt() * gain + shift


def my_block(x, norm1, attention, norm2, mlp):
    # A norm stands before its branch; the stream itself is only added to.
    x = x + attention(norm1(x))
    return x + mlp(norm2(x))


def my_mlp_share(V, T, L, C):
    # Up to 4C and back down: 8 C². Attention has 4 C², and each norm a gain of C numbers.
    mlps = 8 * C * C * L
    return mlps / (V * C + T * C + L * (12 * C * C + 2 * C) + C)


# Causal: the first layer tells the two dogs apart, since one has seen more; the second tells *today*.
# Without a mask every word sees one and the same bag, in every layer. With positions the bags differ.
my_depths = (2, 0, 1)


def my_stack(x, norm, branches):
    # A branch reads the normalised stream and adds to the stream as it is.
    for branch in branches:
        x = x + branch(norm(x))
    return x
