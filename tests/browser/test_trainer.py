"""The trainer in a browser: its gradients and steps are PyTorch's, and gpt.js computes what it computes."""

import base64

import pytest
import torch
import torch.nn.functional as F

from helpers.data import BUNDLED_PLAY
from pictures import host
from pictures.packing import unpack

pytestmark = pytest.mark.slow
SMALL = dict(L=2, H=4, C=32, T=16, B=4)
IMPORT = """async ([trainer, engine, simd]) => {
  if (!simd) delete window.WebAssembly;
  const load = (source) => import(URL.createObjectURL(new Blob([source], { type: "text/javascript" })));
  window.ours = { ...(await load(trainer)), ...(await load(engine)) };
  ours.text = (bytes) => btoa(Array.from(bytes, (byte) => String.fromCharCode(byte)).join(""));
  // A trainer of a text of V letters, at random; not even what should begin at zero does, because that hides mistakes.
  ours.begin = (V, sizes) => {
    const dice = ours.random(V);
    const text = Uint16Array.from({ length: 2000 }, () => V * dice());
    const alphabet = Array.from({ length: V }, (_, i) => String.fromCodePoint(0x1f400 + i));
    const trainer = new ours.Trainer(text, alphabet, sizes);
    trainer.parameters.forEach((_, i, all) => (all[i] = 0.6 * (dice() - 0.5)));
    return trainer;
  };
}"""


@pytest.fixture
def trainers(browser):
    """A page with the trainer and the engine; `simd` decides how it multiplies."""
    page = browser.new_page()

    def start(simd: bool = True):
        page.evaluate(IMPORT, [host.bundle("trainer"), host.bundle("gpt"), simd])
        return page

    yield start
    page.close()


@pytest.mark.parametrize("simd", [True, False], ids=["webassembly", "javascript"])
@pytest.mark.parametrize("V", [1, 8, 9, 210])
def test_gradients_and_a_step_are_those_of_pytorch(trainers, V, simd):
    found = trainers(simd).evaluate(
        """([V, sizes]) => {
          const trainer = ours.begin(V, sizes), [inputs, targets] = trainer.batch();
          const packed = { before: ours.text(trainer.pack()) };
          trainer.forward(inputs);
          const loss = trainer.backward(inputs, targets);
          packed.gradients = ours.text(trainer.pack({}, trainer.gradients));
          trainer.steps = 1;
          trainer.adamW(0.01);
          packed.after = ours.text(trainer.pack());
          return { simd: trainer.simd, inputs: [...inputs], targets: [...targets], loss, packed };
        }""",
        [V, SMALL],
    )
    before, gradients, after = (unpack(base64.b64decode(packed))[0] for packed in found["packed"].values())
    inputs, targets = (torch.tensor(found[name]).view(SMALL["B"], SMALL["T"]) for name in ("inputs", "targets"))
    learned = {name: weight for name, weight in before.named_parameters() if "norm" not in name}
    optimizer = torch.optim.AdamW(learned.values(), lr=0.01, betas=(0.9, 0.98), weight_decay=0.1)
    loss = F.cross_entropy(before(inputs).flatten(0, 1), targets.flatten())
    loss.backward()
    assert found["simd"] == simd and abs(found["loss"] - loss.item()) < 1e-5
    for name, weight in learned.items():
        close = dict(rtol=0, atol=1e-4 * float(weight.grad.abs().max()) + 1e-7, msg=name)
        torch.testing.assert_close(gradients.state_dict()[name], weight.grad, **close)
        weight.grad = gradients.state_dict()[name]  # where it is nearly 0, a step goes by its sign
    optimizer.step()
    for name, weight in learned.items():
        torch.testing.assert_close(after.state_dict()[name], weight.detach(), rtol=0, atol=1e-6, msg=name)


def test_no_letter_sees_those_after_it_and_the_engine_computes_the_same(trainers):
    page = trainers()
    seen, engines, theirs = page.evaluate(
        """(sizes) => {
          const trainer = ours.begin(210, sizes), [inputs] = trainer.batch(), { T, V } = trainer;
          const logits = () => {
            trainer.forward(inputs);
            return Array.from({ length: T }, (_, t) => [...trainer.logits.array.subarray(216 * t, 216 * t + V)]);
          };
          const whole = logits();
          const model = new ours.GPT(trainer.pack()), cache = model.newCache();
          const engines = [...inputs.subarray(0, T)].map((token) => [...model.forward(token, cache)]);
          inputs[T - 1] = (inputs[T - 1] + 1) % V;
          const other = logits();
          return [whole.map((row, t) => row.every((logit, i) => logit === other[t][i])), engines, whole];
        }""",
        SMALL,
    )
    assert seen == [True] * 15 + [False]
    torch.testing.assert_close(torch.tensor(engines), torch.tensor(theirs), rtol=0, atol=1e-4)


def test_it_learns_the_same_with_the_same_seed_and_soon_more_than_pairs_of_letters(trainers):
    text = BUNDLED_PLAY.read_text(encoding="utf-8")
    alphabet = sorted(set(text))
    losses = trainers().evaluate(
        """([text, alphabet, sizes]) => {
          const tokens = Uint16Array.from(text, (letter) => alphabet.indexOf(letter));
          const after = (steps, seed) => {
            const trainer = new ours.Trainer(tokens, alphabet, { ...sizes, seed });
            for (let step = 0; step < steps; step++) trainer.step(step / steps);
            return trainer.validate();
          };
          return [after(3, 1), after(3, 1), after(3, 2), after(200, 1)];
        }""",
        [text, alphabet, SMALL | dict(T=32, B=8)],
    )
    assert losses[0] == losses[1] != losses[2]
    ids = torch.tensor([alphabet.index(letter) for letter in text])
    pairs = torch.zeros(len(alphabet), len(alphabet)).index_put((ids[:-1], ids[1:]), torch.tensor(1.0), True)
    entropy = -(pairs / len(ids) * (pairs / pairs.sum(1, keepdim=True)).log().nan_to_num(neginf=0)).sum()
    assert losses[3] < entropy


@pytest.mark.parametrize("sizes", [dict(T=12), dict(C=36), dict(C=32, H=8)])
def test_sizes_that_do_not_come_in_eights_are_refused(trainers, sizes):
    refused = trainers().evaluate(
        """(sizes) => {
          try { ours.begin(9, sizes); } catch (error) { return error.message; }
        }""",
        SMALL | sizes,
    )
    assert "must be multiples of 8" in refused
