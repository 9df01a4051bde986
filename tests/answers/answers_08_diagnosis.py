"""Answers to the exercises 8d to 8f: wrong ones, with words of the sentence that must refuse them, and right."""

import copy
import math

import numpy as np
import torch
import torch.nn.functional as F


def rules(training, validation, fresh):
    """Other marks and other bounds than ours."""
    if any(after > 1.2 * training[0] for after in training):
        return "learning rate too high"
    if training[-1] > 0.9 * training[0]:
        return "learning rate too low"
    if max(training[-1], validation[-1], fresh[-1]) < 0.2:
        return "targets not shifted"
    if validation[-1] - training[-1] > 1:
        return "overfitting"
    return "validation text leaked" if fresh[-1] - training[-1] > 1 else "healthy"


def by_arrays(*run):
    falls = np.array([[np.min(row), row[-1], row[0], np.max(row)] for row in run])
    low, last, first, high = falls.T
    marks = {
        "learning rate too high": high[0] - first[0] > 2,
        "learning rate too low": first[0] - last[0] < 0.2,
        "targets not shifted": last[2] < 1,
        "overfitting": last[1] - low[1] > 0.5,
        "validation text leaked": last[2] - low[2] > 0.5,
    }
    return next((name for name, holds in marks.items() if holds), "healthy")


def by_the_second_record(training, validation, fresh):
    if training[1] > training[0]:
        return "learning rate too high"
    if training[1] > training[0] - 0.1:
        return "learning rate too low"
    if fresh[1] < 1:
        return "targets not shifted"
    if fresh[-1] < fresh[1]:
        return "healthy"
    return "overfitting" if validation[-1] > 2 else "validation text leaked"


def by_gaps(training, validation, fresh):
    gaps = validation[-1] - training[-1], fresh[-1] - training[-1]
    if max(gaps) < 0.5:
        if training[-1] < 1:
            return "targets not shifted"
        if sorted(training)[-1] != training[0]:
            return "learning rate too high"
        return "healthy" if training[0] - training[-1] > 0.5 else "learning rate too low"
    return "overfitting" if min(gaps) > 0.5 else "validation text leaked"


def instead(**said):
    """By our rules, but one name for another; blanks are underlined."""
    names = {real.replace("_", " "): name for real, name in said.items()}
    return lambda *run: names.get(rules(*run), rules(*run))


def rising(training, validation, fresh):
    return "overfitting" if validation[-1] > validation[0] else "healthy"


def contexts(layer, x):
    B, T, C = x.shape
    D = C // layer.num_heads
    q, k, v = (W(x).reshape(B, T, layer.num_heads, D) for W in (layer.W_query, layer.W_key, layer.W_value))
    scores = torch.einsum("bthd,bshd->bhts", q, k) / math.sqrt(D)
    weights = scores.masked_fill(torch.ones(T, T).triu(1) > 0, -math.inf).softmax(-1)
    return torch.einsum("bhts,bshd->bthd", weights, v)


def joined(change):
    """The output, with the contexts (B, T, H, D) changed."""

    def answer(layer, x, head):
        context = contexts(layer, x)
        change(context, head)
        return layer.out_proj(context.flatten(2))

    return answer


def zero(context, head):
    context[:, :, head] = 0


def columns_of_out_proj(layer, x, head):
    layer, D = copy.deepcopy(layer), x.shape[-1] // layer.num_heads
    layer.out_proj.weight[:, head * D : head * D + D] = 0
    return layer(x)


def by_a_hook(layer, x, head):
    def silence(module, inputs):
        D = inputs[0].shape[-1] // layer.num_heads
        keep = torch.arange(inputs[0].shape[-1]) // D != head
        return (inputs[0] * keep,)

    hook = layer.out_proj.register_forward_pre_hook(silence)
    try:
        return layer(x)
    finally:
        hook.remove()


def values_of_a_copy(layer, x, head):
    silent, D = copy.deepcopy(layer), x.shape[-1] // layer.num_heads
    rows = slice(head * D, (head + 1) * D)
    silent.W_value.weight[rows], silent.W_value.bias[rows] = 0, 0
    return silent(x).numpy()


def less_its_part(layer, x, head):
    D = x.shape[-1] // layer.num_heads
    part = F.linear(contexts(layer, x)[:, :, head], layer.out_proj.weight[:, head * D : (head + 1) * D])
    return (layer(x) - part).requires_grad_()


def value_weights_alone(layer, x, head):
    layer, D = copy.deepcopy(layer), x.shape[-1] // layer.num_heads
    layer.W_value.weight[head * D : head * D + D].zero_()
    return layer(x)


def query_alone(layer, x, head):
    layer, D = copy.deepcopy(layer), x.shape[-1] // layer.num_heads
    layer.W_query.weight[head * D : head * D + D] *= 0
    return layer(x)


def without_copy(layer, x, head):
    D = x.shape[-1] // layer.num_heads
    layer.out_proj.weight[:, head * D : head * D + D] = 0
    return layer(x)


def output_channels(layer, x, head):
    y, D = layer(x).clone(), x.shape[-1] // layer.num_heads
    y[..., head * D : head * D + D] = 0
    return y


def input_channels(layer, x, head):
    y, D = x.clone(), x.shape[-1] // layer.num_heads
    y[..., head * D : head * D + D] = 0
    return layer(y)


def every_h_th(context, head):
    flat = context.flatten(2)
    flat[..., head :: context.shape[2]] = 0
    context[:] = flat.view_as(context)


def alone(context, head):
    kept = context[:, :, head].clone()
    context[:] = 0
    context[:, :, head] = kept


def louder(context, head):
    zero(context, head)
    context *= context.shape[2] / (context.shape[2] - 1)


def mean_over_time(context, head):
    context[:, :, head] = context[:, :, head].mean(1, keepdim=True)


WRONG = {
    "8d": [
        ("one name doesn't fit all", lambda *run: "overfitting"),
        ("one name doesn't fit all", lambda *run: "healthy"),
        ("healthy runs are called overfitting", instead(healthy="overfitting")),
        ("at too low a rate it never rises", instead(learning_rate_too_high="learning rate too low")),
        ("too high and too low are exchanged", instead(
            learning_rate_too_high="learning rate too low", learning_rate_too_low="learning rate too high")),
        ("hardly left its start", instead(learning_rate_too_low="healthy")),
        ("too good to be true", instead(targets_not_shifted="healthy")),
        ("no leak makes FRESH text easy", instead(targets_not_shifted="validation text leaked")),
        ("a leaked validation text looks healthy", instead(validation_text_leaked="healthy")),
        ("the validation loss hides it", instead(validation_text_leaked="overfitting")),
        ("overfitting is missed", instead(overfitting="healthy")),
        ("validation and fresh rise together", instead(overfitting="validation text leaked")),
        ("far above its start is called healthy", instead(learning_rate_too_high="healthy")),
        ("it gives 'healthy' where 'learning rate too high' is right", rising),
        ("it gives 'leak' where 'validation text leaked' is right", instead(validation_text_leaked="leak")),
        ("changes its input `training`", lambda training, validation, fresh: (
            training.sort(), rules(training[::-1], validation, fresh))[1]),
    ],
    "8e": [
        ("nothing is silenced", lambda layer, x, head: layer.out_proj(contexts(layer, x).flatten(2))),
        ("channels of the OUTPUT", output_channels),
        ("channels of x", input_channels),
        ("every H-th channel", joined(every_h_th)),
        ("speaks alone", joined(alone)),
        ("another head is silenced", joined(lambda context, head: zero(context, head - 1))),
        ("always the same head", joined(lambda context, head: zero(context, 0))),
        ("is not silent", query_alone),
        ("the value's bias still speaks", value_weights_alone),
        ("speak louder", joined(louder)),
        ("by its mean", joined(mean_over_time)),
        ("out_proj is forgotten", lambda layer, x, head: (c := contexts(layer, x), zero(c, head), c.flatten(2))[2]),
        ("out_proj's bias", lambda layer, x, head: (
            c := contexts(layer, x), zero(c, head), c.flatten(2) @ layer.out_proj.weight.T)[2]),
        ("what the head adds", lambda layer, x, head: layer(x) - by_a_hook(layer, x, head)),
        ("changes its input `layer`", without_copy),
    ],
    "8f": [
        ("those are bits", (1.58, 1.5, 0.5)),
        ("its loss is not 0", (0.0, 1.04, 0.35)),
        ("b is more frequent", (1.04, 1.04, 0.35)),
        ("cheaper than ln 3", (1.1, 1.1, 0.35)),
        ("half of the letters are b", (1.1, 1.39, 0.35)),
        ("the best is not 0", (1.1, 1.04, 0)),
        ("certain and costs nothing", (1.1, 1.04, 0.69)),
        ("knows more than the counts", (1.1, 1.04, 1.04)),
        ("the order is", (0.35, 1.04, 1.1)),
        ("3 things in a tuple", (1.1, 1.04)),
        ("0.9 is not right", (1.1, 0.9, 0.35)),
    ],
}  # fmt: skip
RIGHT = {
    "8d": [
        rules,
        by_arrays,
        by_the_second_record,
        by_gaps,
        lambda *run: np.str_(rules(*run)),
    ],
    "8e": [
        joined(zero),
        columns_of_out_proj,
        by_a_hook,
        values_of_a_copy,
        less_its_part,
        lambda layer, x, head: [columns_of_out_proj(layer, row[None], head)[0] for row in x],
    ],
    "8f": [
        (1.0986, 1.0397, 0.3466),
        [1.1, 1.04, 0.35],
        torch.tensor([math.log(3), 1.5 * math.log(2), math.log(2) / 2]),
        (np.log(3), -np.log([0.25, 0.5, 0.5, 0.25]).mean(), np.float32(0.346574)),
        (math.log(3), math.log(8) / 2, math.log(2) / 2),
    ],
}  # fmt: skip
