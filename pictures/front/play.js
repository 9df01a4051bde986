// A GPT with its lid off: write with it, and see all that it computes. Everything on the page follows from `reader`, which
// has read the window, and from `at`, the letter that the reader points at.
import { breaking } from "./broken.js";
import { GPT } from "./gpt.js";
import { Reader } from "./reader.js";
import { draw, probabilities, random, softmax, surpriseOf } from "./sampling.js";

// Okabe and Ito, as in pictures/plotting.py.
const COLORS = ["#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00"];
// The same green, ever less transparent.
const GREENS = Uint32Array.from({ length: 256 }, (_, i) => Math.round(255 * (i / 255) ** 0.6) * 256 ** 3 + 0x739e00);
const SPECIAL = { "\n": "↵", " ": "·" };
const LETTER = /\p{L}/u;
const NAMES = { "\n": "a new line", " ": "a space" };
const START = "O Romeo, Romeo! wherefore";
// What the page writes unasked: so many letters, with these dice, chosen from a hundred as what makes one read on.
const UNASKED = { letters: 64, dice: 15 };
// Heads are named by what they do in this text.
const SAMPLE = "But, soft! what light through yonder window breaks?\nIt is the east, and Juliet is the sun.";

// `data.model`: what pictures/packing.py wrote. Optional: `data.snapshots`, a list of { step, loss, load() ->
// promise of such bytes }; `data.text` to begin with; `data.page`, true where this is a page of its own, with a title.
// Returns a function that removes it all.
export function mount(element, data) {
  const model = new GPT(data.model);
  const reader = new Reader(model);
  const { config, about } = model;
  const { n_layer: L, n_head: H, n_embd: C, context_length: CONTEXT, vocab_size: V } = config;
  const NEURONS = config.mlp_width ?? 4 * C;
  const looksBack = model.tables.length + model.before.length > 0; // its embeddings say which letters stand before
  const added = [looksBack && "which letters stand before it", !config.rotary && "where it stands"].filter(Boolean);
  const settings = { temperature: 0.8, topK: V, topP: 1 };
  const shown = model.alphabet.map((letter) => SPECIAL[letter] ?? letter);
  const named = (token) => NAMES[model.alphabet[token]] ?? `“${model.alphabet[token]}”`;
  let tokens = []; // the whole text
  let typed = 0; // how much of it was typed
  let nats = []; // how surprising each letter was
  let at = 0;
  let chosen = [0, 0];
  let fresh = 0;
  let computed = 0;
  let uncached = 0;
  let wrapped = false;
  let held = null; // a letter that was clicked
  let whole = null; // a second model, when the first has heads switched off
  const sample = model.encode(SAMPLE + (data.text ?? START)).slice(0, CONTEXT);
  let dice = Math.random;
  let timer = 0;
  let said = 0;
  let frame = 0;
  let idle = 0;
  let follower = 0;
  let playing = 0;
  let gone = false;
  let stale = new Set();

  const root = h("div", { class: "explore-play" }, h("style", {}, CSS));
  const section = (title, ...children) => h("section", {}, h("h2", {}, title), ...children);
  const say = (...children) => h("p", { class: "explore-say" }, ...children);

  // ---------------------------------------------------------------- 1. the stage
  const line = h("textarea", {
    rows: 2,
    spellcheck: "false",
    autocomplete: "off",
    oninput: () => type(line.value),
    onkeydown: entered,
  });
  const go = h("button", { class: "explore-main", onclick: () => (timer ? pause() : write()) }, "Let it write");
  const again = h("button", { onclick: go.onclick }, "Let it write");
  const oneLetter = () => {
    pause();
    step();
  };
  const pace = h("input", {
    type: "range",
    "aria-label": "pace",
    min: 2,
    max: 60,
    value: 14,
    oninput: () => {
      if (!timer) return;
      pause();
      write();
    },
  });
  const note = h("p", { class: "explore-note", role: "status" });
  const spoken = h("p", { class: "explore-unseen", role: "status" });
  const paper = h("p", { class: "explore-paper", tabindex: 0, role: "region", "aria-label": "The text" });
  function heading() {
    const corpus = about.corpus === "tiny Shakespeare" ? "Shakespeare" : about.corpus || "its text";
    const lead = h(
      "p",
      { class: "explore-lead" },
      `A computer tuned ${number(about.parameters)} numbers for ${duration(about.seconds)}, until it was good at guessing the next letter of ${corpus}. `,
      "The whole model is in this page. Give it a line, and watch what happens inside.",
    );
    return [h("h1", {}, "A small GPT with its lid off"), lead];
  }
  const stage = h(
    "section",
    { class: "explore-stage" },
    data.page && heading(),
    h("label", { class: "explore-line" }, h("span", {}, "Start a line …"), line),
    note,
    h(
      "div",
      { class: "explore-buttons" },
      go,
      h("button", { onclick: oneLetter }, "One letter"),
      h("button", { onclick: () => type(line.value) }, "Back to your line"),
      h("label", { class: "explore-pace" }, "slow", pace, "fast"),
    ),
    paper,
    spoken,
  );

  // ---------------------------------------------------------------- 2. the ruler: the letters that the model sees
  const walkRuler = (event) => {
    const ways = {
      ArrowLeft: at - 1,
      ArrowDown: at - 1,
      ArrowRight: at + 1,
      ArrowUp: at + 1,
      Home: 0,
      End: reader.places.length - 1,
    };
    const to = ways[event.key];
    if (to === undefined) return;
    event.preventDefault();
    hold(null);
    point(to);
  };
  const ruler = h("div", {
    class: "explore-ruler",
    role: "slider",
    tabindex: 0,
    "aria-label": "The letter to look at",
    "aria-valuemin": 1,
    onkeydown: walkRuler,
    onpointermove: (event) => event.target.dataset.at && point(+event.target.dataset.at),
    onclick: (event) => event.target.dataset.at && hold(+event.target.dataset.at),
  });
  const hint = h(
    "p",
    {},
    "Point at a letter, or click it to hold it: everything below describes it. ",
    h("span", { class: "explore-key" }, "Green"),
    ` is what one of its ${many(L * H, "head")} looks back at.`,
  );
  const hinted = h("div", { class: "explore-hint" }, hint, again, h("button", { onclick: oneLetter }, "One letter"));
  const strip = h("div", { class: "explore-strip" }, ruler, hinted);

  // ---------------------------------------------------------------- 3. what comes next
  const bars = h("div", { class: "explore-bars" });
  const range = (name, label, low, high, by, read) => {
    const value = h("output", {});
    const moved = () => {
      settings[name] = +input.value;
      value.textContent = read(settings[name]);
      render();
    };
    const attributes = { type: "range", min: low, max: high, step: by, value: settings[name], "data-setting": name };
    const input = h("input", { ...attributes, oninput: moved });
    value.textContent = read(settings[name]);
    return h("label", {}, h("span", {}, label), value, input);
  };
  const readShare = (share) => (share >= 1 ? "all" : `${Math.round(100 * share)}%`);
  const sliders = [
    range("temperature", "temperature", 0.1, 2, 0.05, (v) => v.toFixed(2)),
    range("topK", "top-k: only the k likeliest", 1, V, 1, (v) => (v >= V ? "all" : v)),
    range("topP", "top-p: only the likeliest, until together they reach this share", 0.05, 1, 0.01, readShare),
  ];
  const legend = say(
    "Wide, pale bars: the model's own probabilities. Narrow bars: after temperature and cuts, as the dice see them.",
  );
  const nextTitle = h("span", {});
  const next = section(
    "What comes next?",
    say(
      "The model doesn't choose the next letter. It gives each of the ",
      `${V} characters it knows (· is a space, ↵ a new line) a probability, and dice do the rest. `,
      "Lower the temperature and it plays safe; raise it and it gets bold. Click a letter to choose it yourself.",
      data.page ? " (What the page wrote when you arrived is the best of a hundred.)" : "",
    ),
    h(
      "div",
      { class: "explore-two" },
      h("div", {}, h("p", { class: "explore-note" }, nextTitle), bars),
      h("div", { class: "explore-sliders" }, sliders, legend),
    ),
  );

  // ---------------------------------------------------------------- 4. attention
  const rowAt = (event) => Math.floor((event.offsetY / large.clientHeight) * reader.places.length);
  const large = h(
    "div",
    { class: "explore-map", onpointermove: (event) => point(rowAt(event)), onclick: (event) => hold(rowAt(event)) },
    picture("The map of the chosen head"),
    h("i", { class: "explore-row" }),
  );
  const left = h("div", { class: "explore-axis explore-left", "aria-hidden": "true" });
  const top = h("div", { class: "explore-axis explore-top", "aria-hidden": "true" });
  const looks = h("p", { class: "explore-looks" });
  const why = h("div", { class: "explore-why" });
  const headButton = (l, k) =>
    h(
      "button",
      { class: "explore-head", "aria-label": `Layer ${l + 1}, head ${k + 1}`, onclick: () => choose(l, k) },
      h("span", { class: "explore-map" }, h("canvas", {}), h("i", { class: "explore-row" })),
      h("span", { class: "explore-habit" }),
    );
  const heads = Array.from({ length: L }, (_, l) => Array.from({ length: H }, (_, k) => headButton(l, k)));
  const largeTitle = h("h3", {});
  const effect = h("p", { class: "explore-note", role: "status" });
  const turn = h("button", { onclick: switchHead }, "Switch this head off");
  const chosenHead = h(
    "div",
    {},
    largeTitle,
    h("div", { class: "explore-framed" }, top, left, large),
    looks,
    why,
    h("div", { class: "explore-buttons" }, turn),
    effect,
  );
  const floors = heads.map((row, l) => [h("span", { class: "explore-floor" }, `layer ${l + 1}`), row]);
  const allHeads = h(
    "div",
    {},
    h("h3", {}, `All ${many(L * H, "head")}`),
    h("div", { class: "explore-heads", style: `--h: ${H}` }, floors),
    say(
      "Nobody told a head what to look for. Under each is its habit (on two lines of Shakespeare), and the share of its attention that goes there in your text. Choose one to see it large, or to switch it off.",
    ),
  );
  const attention = section(
    "Where does it look?",
    say(
      "Attention is looking back. Each row of a map is one letter. It has a question, its query; every letter up to itself has a label, its key. Where the two match, it looks: the greener, the more. It takes in each letter's value in the same proportion. The grey corner is the future, which nobody may see. (Point at a row, or click it to hold its letter.) ",
      `A head is one such way of looking, with queries and keys of its own. This model has ${many(L, "layer")} with ${many(H, "head")} each.`,
    ),
    h("div", { class: "explore-two explore-maps" }, chosenHead, allHeads),
  );

  // ---------------------------------------------------------------- 5. the machine
  const parts = []; // { element, draw(place), tell(place) }, in the order in which one follows the letter
  const told = h("p", { class: "explore-told" });
  function part({ label, kind, shows, draw, tell }) {
    const index = parts.length;
    const attributes = {
      class: `explore-part explore-${kind}`,
      onpointermove: (event) => {
        // Not when the page moves below a pointer that rests.
        if (event.movementX || event.movementY) light(index);
      },
      onfocus: () => light(index),
      onclick: () => light(index),
    };
    const numbers = h("span", { class: "explore-numbers" }, shows);
    const element = h("button", attributes, h("span", { class: "explore-label" }, label), numbers);
    parts.push({ element, draw, tell });
    return element;
  }
  const canvas = (height) => h("canvas", { style: `height: ${height}px`, "aria-hidden": "true" });
  const labelled = (text, small) => h("span", {}, text, h("small", {}, small));

  const big = h("b", { class: "explore-big" });
  const letterPart = part({
    label: "the letter",
    kind: "ends",
    shows: [big],
    draw: (p) => {
      big.textContent = shown[p.token];
    },
    tell: (p) =>
      `The letter is ${named(p.token)}, number ${p.token} of the ${V} that the model knows. A computer can't calculate with a letter, so …`,
  });

  const vectors = added.length ? [canvas(12), canvas(12)] : [canvas(12)];
  const numbersPart = part({
    label: labelled("its numbers", ["what it is", ...added].join(" + ")),
    kind: "stream",
    shows: vectors,
    draw: (p) => {
      const own = model.tokenEmbedding.subarray(p.token * C, (p.token + 1) * C);
      signed(vectors[0], own, C);
      if (!added.length) return;
      const others = p.stream[0].map((v, i) => v - own[i]);
      signed(vectors[1], others, C);
    },
    tell: (p) => {
      const above = `… ${named(p.token)} at place ${at + 1} gets ${C} numbers that say what it is`;
      const below = added.length
        ? ` (above), and ${C} that say ${added.join(" and ")} (below). Their sum is the stream.`
        : ". They are the stream.";
      const turned = " Where it stands is for attention to say: it turns queries and keys by their places.";
      return above + below + (config.rotary ? turned : "");
    },
  });

  function layerParts(l) {
    const weights = canvas(8 * H);
    const read = canvas(10);
    const hidden = canvas(20);
    const thought = canvas(10);
    const stream = canvas(14);
    const reads = part({
      label: labelled("attention reads", `${many(H, "head")}, each a row over the text`),
      kind: "reads",
      shows: [weights, read],
      draw: (p) => {
        share(weights, p.layers[l].weights, reader.places.length);
        signed(read, p.layers[l].read, C);
      },
      tell: (p) => {
        const found = p.layers[l].weights.map((w, k) => `head ${k + 1} looks most at ${most(w)}`);
        const large = percent(norm(p.layers[l].read) / norm(p.stream[l]));
        return `Attention in layer ${l + 1}: ${found.join("; ")}. What they find (the strip below) is added to the stream; it is ${large} of the size of what was there.`;
      },
    });
    const thinks = part({
      label: labelled("the MLP works", `${NEURONS} neurons`),
      kind: "thinks",
      shows: [hidden, thought],
      draw: (p) => {
        signed(hidden, p.layers[l].hidden, C);
        signed(thought, p.layers[l].thought, C);
      },
      tell: (p) => {
        const firing = p.layers[l].hidden.filter((v) => v > 0.1).length;
        return `The MLP of layer ${l + 1} works on this letter alone: ${firing} of its ${NEURONS} neurons fire (above 0.1). Their output is added to the stream as well.`;
      },
    });
    const after = part({
      label: "the stream now",
      kind: "stream",
      shows: [stream],
      draw: (p) => signed(stream, p.layers[l].stream, C),
      tell: (p) =>
        `${l ? "" : "Nothing in the stream is overwritten: every part only adds. "}If it ended here, after layer ${l + 1}, the model would say ${answer(p.stream[l + 1])}.`,
    });
    return h("div", { class: "explore-layer" }, h("h3", {}, `layer ${l + 1}`), reads, thinks, after);
  }
  const layers = Array.from({ length: L }, (_, l) => layerParts(l));

  const end = h("b", { class: "explore-big" });
  const scoreBars = canvas(26);
  const scoresPart = part({
    label: labelled("the scores", `one for each of ${V} letters`),
    kind: "ends",
    shows: [scoreBars, end],
    draw: (p) => {
      columns(scoreBars, p.logits);
      end.textContent = NAMES[model.alphabet[best(p.logits)]] ?? shown[best(p.logits)];
    },
    tell: (p) => {
      const winner = capital(named(best(p.logits)));
      const chance = percent(Math.max(...softmax(p.logits)));
      return `The stream is compared with the numbers of every letter: the better they match, the higher the score. ${winner} wins, and the softmax turns the scores into chances: ${chance} for it, before the temperature.`;
    },
  });

  const followOrStop = () => (follower ? unfollow() : walk());
  const follow = h("button", { style: "min-width: 10rem", onclick: followOrStop }, "Follow the letter");
  const machine = section(
    "How does it get there?",
    say(
      `A letter becomes ${C} numbers, its stream. Then, in every layer (this model has ${L}), attention adds what it read from earlier letters, and a small network (MLP) adds what it makes of that. In the end the stream is compared with every letter. No single number means much; see how the strip changes from part to part. These are the real ones: `,
      h("span", { class: "explore-blue" }, "blue"),
      " above zero, ",
      h("span", { class: "explore-orange" }, "orange"),
      " below.",
    ),
    h("div", { class: "explore-buttons" }, follow),
    h("div", {}, h("div", { class: "explore-machine" }, letterPart, numbersPart, layers, scoresPart), told),
  );

  // ---------------------------------------------------------------- 6. the logit lens
  const lens = h("div", { class: "explore-lens" });
  const lensSection = section(
    "When does it know?",
    say(
      "What if the model had to answer early? Here its stream is turned into chances after each layer, for the letter you point at. Watch an opinion form.",
      looksBack ? "" : " Before the first layer it mostly repeats the letter: it has looked at nothing else.",
    ),
    lens,
  );

  // ---------------------------------------------------------------- 7. surprise
  const surprise = h("p", { class: "explore-surprise" });
  const sum = h("p", { class: "explore-note" });
  const surpriseSection = section(
    "What surprised it?",
    say(
      "The thicker the line under a letter, the less the model expected it. Beginnings of words are mostly hard, and their ends easy. Type nonsense, or a rare name, and see.",
    ),
    surprise,
    sum,
  );

  // ---------------------------------------------------------------- 8. how it learned
  const stations = [...(data.snapshots ?? []).map((s) => ({ ...s })), { step: about.step, loss: about.loss, model }];
  const when = h("input", {
    type: "range",
    min: 0,
    max: stations.length - 1,
    step: 1,
    value: stations.length - 1,
    "aria-label": "Step of the training",
    oninput: () => {
      stopFilm();
      learn();
    },
  });
  const whenTitle = h("h3", { "aria-live": "polite" });
  const verse = h("p", { class: "explore-paper explore-verse" });
  const early = h("div", { class: "explore-bars" });
  const earlyMap = h(
    "div",
    { class: "explore-map" },
    picture("The map of the chosen head at that time"),
    h("i", { class: "explore-row" }),
  );
  const earlyNote = h("p", { class: "explore-note" });
  const watchOrStop = () => (playing ? stopFilm() : startFilm());
  const film = h("button", { style: "min-width: 9.5rem", onclick: watchOrStop }, "Watch it learn");
  function learningSection() {
    const steps = stations.map(({ step }) => h("span", {}, number(step)));
    const stops = h("span", { class: "explore-stops", "aria-hidden": "true" }, steps);
    const expects = "What it expects after the line that you typed (its own probabilities, before temperature)";
    return section(
      "How did it learn?",
      say(
        "At the start all its numbers were random. Move the slider through the training: at each stop the same line and the same dice, but the model as it was then. It goes from noise to nonsense words, and from there to real ones. ",
        `The slider has ${stations.length} stops, because the model was saved ${stations.length} times.`,
      ),
      h("div", { class: "explore-buttons" }, film, h("label", { class: "explore-when" }, when, stops)),
      whenTitle,
      h(
        "div",
        { class: "explore-two explore-learned" },
        verse,
        h("div", {}, h("p", { class: "explore-note" }, expects), early),
        h("div", {}, earlyMap, earlyNote),
      ),
    );
  }
  const learning = stations.length > 1 && learningSection();

  // ---------------------------------------------------------------- 9. the cache
  const cells = picture("The cache", { class: "explore-cells" });
  const cacheNote = h("p", { class: "explore-note" });
  const cacheSection = section(
    "What can it reuse?",
    say(
      "Each letter leaves a key (what others find it by) and a value (what it has to offer) in every layer. They stay in a cache, so a new letter costs one column, ",
      h("span", { class: "explore-orange" }, "orange"),
      ", and the ",
      h("span", { class: "explore-blue" }, "blue"),
      ` ones are reused. When all ${CONTEXT} places are full, the last half moves to the front, and everything in it is recomputed. Press “One letter” (at the top of the window) and watch.`,
    ),
    h("div", { class: "explore-scroll" }, cells),
    cacheNote,
  );

  // ---------------------------------------------------------------- 10. faults
  const broken = breaking(model, h);
  const brokenSection = h("section", { class: "explore-broken" }, h("h2", {}, "Break it"), broken.contents);

  const views = new Map([
    [stage, renderText],
    [strip, renderRuler],
    [next, renderNext],
    [learning, () => timer || learn()],
    [attention, renderMaps],
    [machine, renderMachine],
    [lensSection, renderLens],
    [surpriseSection, renderSurprise],
    [cacheSection, renderCache],
    [brokenSection, () => timer || broken.show(tokens.slice(0, typed))],
  ]);
  views.delete(false); // no snapshots
  const inSight = new Set();
  const watch = (entries) => {
    for (const { target, isIntersecting } of entries) {
      inSight[isIntersecting ? "add" : "delete"](target);
      if (isIntersecting) drawn(target);
    }
  };
  const observer = new IntersectionObserver(watch, { rootMargin: "300px" });
  root.append(...views.keys(), h("footer", {}, origin(about, config)));
  // Whoever scrolls away from the machine is not pulled back.
  for (const moved of ["wheel", "touchmove"])
    root.addEventListener(moved, () => follower && unfollow(), { passive: true });
  root.addEventListener("keydown", (event) => event.key === "Escape" && held !== null && hold(null));
  element.append(root);
  const habits = habitsOf(model);
  line.value = data.text ?? START;
  type(line.value);
  chosen = firmest();
  for (const section of views.keys()) observer.observe(section);
  if (data.page && !matchMedia("(prefers-reduced-motion: reduce)").matches) {
    dice = random(UNASKED.dice);
    write(UNASKED.letters, "Now start a line of your own.");
  }
  return () => {
    gone = true;
    pause();
    unfollow();
    stopFilm();
    broken.stop();
    observer.disconnect();
    cancelAnimationFrame(frame);
    clearTimeout(idle);
    root.remove();
  };

  // ---------------------------------------------------------------- what happens
  function type(text) {
    pause();
    const unknown = [...new Set([...text].filter((letter) => !model.ids.has(letter)))];
    tokens = model.encode(text);
    const notes = [
      !tokens.length && "Nothing to go on: it begins after a new line (↵).",
      unknown.length && `The model has never seen ${unknown.map((c) => `“${c}”`).join(", ")}: left out.`,
      tokens.length > CONTEXT && `It sees only the last ${CONTEXT} of ${tokens.length} characters.`,
    ];
    note.textContent = notes.filter(Boolean).join(" ");
    if (!tokens.length) tokens = [model.ids.get("\n") ?? 0];
    typed = tokens.length;
    fresh = reader.reread(tokens);
    count(false);
    nats = tokens.map(() => null);
    judge();
    said = typed;
    changed();
  }

  // Enter lets it write; with the shift key it is a new line.
  function entered(event) {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    if (!timer) write();
  }

  // How surprising each letter of the window was, but for its first.
  function judge() {
    const start = tokens.length - reader.places.length;
    reader.places.slice(0, -1).forEach((place, i) => {
      nats[start + i + 1] = surpriseOf(place, reader.window[i + 1]);
    });
  }

  function step(token = draw(probabilities(reader.places.at(-1).logits, settings), dice)) {
    nats.push(surpriseOf(reader.places.at(-1), token));
    tokens.push(token);
    const full = reader.window.length === CONTEXT;
    fresh = reader.write(token);
    count(full);
    if (!timer || model.alphabet[token] === "\n") speak();
    changed();
  }

  // For those who listen: line by line while it writes, and what is left when it stops.
  function speak() {
    const tail = model.decode(tokens.slice(said));
    if (!tail.trim()) return;
    spoken.textContent = tail;
    said = tokens.length;
  }

  function count(full) {
    computed += fresh;
    uncached += reader.window.length;
    wrapped = full;
  }

  function write(left = 600, after = "600 letters: “Continue” writes more.") {
    // It would go on for ever.
    const tick = () => {
      if (left-- > 0) {
        step();
      } else {
        pause();
        note.textContent = after;
      }
    };
    timer = setInterval(tick, 1000 / pace.value);
    offer("Pause");
    step();
  }

  function pause() {
    dice = Math.random;
    clearInterval(timer);
    timer = 0;
    offer();
    if (gone || !reader.places.length) return;
    speak();
    render();
  }

  function offer(what = tokens.length > typed ? "Continue" : "Let it write") {
    go.textContent = again.textContent = what;
  }

  function changed() {
    at = reader.places.length - 1;
    held = null;
    if (!timer) offer();
    render();
  }

  // Pointing at a letter shows it, unless one is held; a click holds it, and a second one, Escape or a click on the last
  // letter lets it go.
  function point(place) {
    if (held !== null || inText(place) === at) return;
    at = inText(place);
    render();
  }

  function hold(place) {
    const last = reader.places.length - 1;
    held = place === null || place === held || place === last ? null : inText(place);
    at = place === last ? last : (held ?? at);
    render();
  }

  function inText(place) {
    return Math.max(0, Math.min(place, reader.places.length - 1));
  }

  // Without the chosen head: what it reads is thrown away, and all is computed anew.
  function switchHead() {
    const head = chosen[0] * H + chosen[1];
    pause();
    if (!model.off.delete(head)) model.off.add(head);
    reader.compute(0);
    judge();
    render();
  }

  function light(index) {
    parts.forEach(({ element }, i) => {
      element.classList.toggle("explore-lit", i === index);
    });
    parts.lit = index;
    if (follower) parts[index].element.scrollIntoView({ block: "nearest" });
    told.textContent = parts[index].tell(reader.places[at]);
  }

  function walk() {
    let index = 0;
    follow.textContent = "Stop";
    follower = 1;
    light(0);
    const goOn = () => {
      index += 1;
      if (index < parts.length) light(index);
      else unfollow();
    };
    follower = setInterval(goOn, 2200);
  }

  function unfollow() {
    clearInterval(follower);
    follower = 0;
    follow.textContent = "Follow the letter";
  }

  function startFilm() {
    when.value = 0;
    film.textContent = "Stop";
    learn();
    const goOn = () => {
      if (+when.value < stations.length - 1) {
        when.value++;
        learn();
      } else {
        stopFilm();
      }
    };
    playing = setInterval(goOn, 2500);
  }

  function stopFilm() {
    clearInterval(playing);
    playing = 0;
    film.textContent = "Watch it learn";
  }

  // The line as a snapshot sees it, and how it goes on; loaded when it is first asked for.
  async function learn() {
    const station = stations[when.value];
    const asked = [when.value, chosen, typed, tokens].join();
    if (asked === learn.asked) return; // it stands there already
    learn.asked = asked;
    const title = `After ${number(station.step)} of ${number(about.step)} steps`;
    when.setAttribute("aria-valuetext", title);
    try {
      station.model ??= new GPT(await station.load());
    } catch (problem) {
      whenTitle.textContent = `${title}: ${problem.message}`;
      return;
    }
    if (gone || asked !== learn.asked) return;
    whenTitle.textContent = `${title} · loss ${station.loss.toFixed(2)}`;
    const other = new Reader(station.model);
    const dice = random(7);
    other.reread(reader.window);
    station.habits ??= habitsOf(station.model);
    const { does } = station.habits[chosen[0]][chosen[1]];
    map(earlyMap, other.places, ...chosen, does);
    earlyNote.textContent = `Layer ${chosen[0] + 1}, head ${chosen[1] + 1} at that time: ${does}.`;
    const text = tokens.slice(Math.max(0, typed - 120), typed);
    other.reread(text);
    fillBars(early, other.places.at(-1).logits, {}, 6);
    const more = h("span", { class: "explore-written" });
    verse.replaceChildren(model.decode(text), more);
    for (let i = 0; i < 150; i++) {
      const token = draw(probabilities(other.places.at(-1).logits, { temperature: 0.8 }), dice);
      more.textContent += model.alphabet[token];
      other.write(token);
      if (i % 10 === 9) await new Promise((done) => setTimeout(done));
      if (gone || asked !== learn.asked) return;
    }
  }

  // ---------------------------------------------------------------- what is seen
  // What is in sight is drawn with the next frame, all else once nothing has happened for a while.
  function render() {
    stale = new Set(views.keys());
    root.dataset.drawn = "partly";
    cancelAnimationFrame(frame);
    frame = requestAnimationFrame(() => {
      root.style.setProperty("--at", at);
      root.style.setProperty("--t", reader.places.length);
      root.classList.toggle("explore-pointing", at < reader.places.length - 1);
      root.classList.toggle("explore-holding", held !== null);
      for (const section of views.keys()) {
        if (inSight.has(section)) drawn(section);
      }
    });
    clearTimeout(idle);
    idle = setTimeout(function rest() {
      const [section] = stale;
      if (section) {
        drawn(section);
        idle = setTimeout(rest);
      } else {
        root.dataset.drawn = "wholly";
      }
    }, 300);
  }

  function drawn(section) {
    if (stale.delete(section)) views.get(section)(reader.places[at], reader.places);
  }

  function renderMaps(place, places) {
    const [l, k] = chosen;
    const targets = targetsIn(lettersOf(places));
    heads.forEach((row, i) => {
      row.forEach((button, j) => {
        const { does } = habits[i][j];
        const off = model.off.has(i * H + j);
        const spent = attentionTo(targets, does, places, i, j);
        map(button, places, i, j, does);
        if (i === l && j === k) {
          largeTitle.textContent = `Layer ${l + 1}, head ${k + 1}: ${does}`;
          map(large, places, l, k, does);
        }
        const what = `Layer ${i + 1}, head ${j + 1}: ${does}${off ? ", switched off" : ""}`;
        button.lastChild.textContent = off ? "switched off" : does + spent;
        button.classList.toggle("explore-off", off);
        button.setAttribute("aria-label", what);
        button.setAttribute("aria-pressed", i === l && j === k);
      });
    });
    const tick = ({ token }, i) => h("span", { class: i === at ? "explore-here" : "" }, shown[token]);
    for (const axis of [left, top]) axis.replaceChildren(...places.map(tick));
    looks.textContent = `From ${named(place.token)} at place ${at + 1}, this head looks at ${list(place.layers[l].weights[k])}.`;
    renderWhy(place, places);
    turn.textContent = model.off.has(l * H + k) ? "Switch this head on again" : "Switch this head off";
    effect.textContent = model.off.size
      ? sayEffect(place, places)
      : "Would the model miss it? Guess, then switch it off.";
  }

  // What a model with heads switched off has lost, beside the whole one on the same letters.
  function sayEffect(place, places) {
    whole ??= new Reader(new GPT(data.model));
    whole.reread(reader.window);
    const now = softmax(place.logits);
    const then = softmax(whole.places[at].logits);
    const moved = then.map((p, i) => Math.abs(now[i] - p));
    const letter = best(moved);
    const surprises = (read) => read.slice(0, -1).map((each, i) => surpriseOf(each, reader.window[i + 1]));
    const mean = (read) => surprises(read).reduce((sum, nat) => sum + nat, 0) / (read.length - 1);
    const off = [...model.off].map((head) => `head ${(head % H) + 1} of layer ${Math.floor(head / H) + 1}`);
    const chances = `${named(letter)} gets ${percent(now[letter])} instead of ${percent(then[letter])}`;
    const lost = `Without ${off.join(" and ")}: after ${named(place.token)}, ${chances}.`;
    if (places.length < 2) return lost;
    const [without, withThem] = [mean(places), mean(whole.places)].map((nat) => nat.toFixed(2));
    const them = model.off.size > 1 ? "them" : "it";
    return `${lost} Average surprise over these letters: ${without} nats, ${withThem} with ${them}.`;
  }

  // Why a head looks where it looks: the query, the keys of the two letters that get most and of the one that gets least,
  // each above its products with the query, and the scores.
  function renderWhy(place, places) {
    const [l, k] = chosen;
    const D = C / H;
    const part = (vector) => vector.subarray(k * D, (k + 1) * D);
    const query = part(place.layers[l].query);
    const weights = place.layers[l].weights[k];
    const order = [...weights.keys()].sort((i, j) => weights[j] - weights[i]);
    const shownKeys = order.length > 3 ? [...order.slice(0, 2), order.at(-1)] : order;
    const products = shownKeys.map((i) => part(places[i].layers[l].key).map((v, d) => v * query[d]));
    const largest = Math.max(...products.map(size));
    const row = (label, values, score = "", share = "") => {
      const cells = h("canvas", { "aria-hidden": "true", style: `height: ${values.length > D ? 28 : 14}px` });
      signed(cells, values, D);
      return [h("span", {}, label), cells, h("span", {}, score), h("b", {}, share)];
    };
    const keyRow = (i, n) => {
      const key = part(places[i].layers[l].key);
      const score = products[n].reduce((sum, v) => sum + v, 0) / Math.sqrt(D);
      const strips = [...key.map((v) => v / size(key)), ...products[n].map((v) => v / largest)];
      const label = `${order.length > 3 && n === 2 ? "least: " : ""}${i === at ? "its own key" : `key of ${where(i)}`}`;
      return row(label, strips, score.toFixed(1).replace("-", "−"), percent(weights[i]));
    };
    const explained = h(
      "p",
      { class: "explore-note" },
      `Under each key: the query times that key, number by number. Blue, they agree; orange, they don't. Add them up and divide by √${D}: that is the score. `,
      `Softmax turns the scores of all ${weights.length} letters into shares. Only differences count, so even a score below zero can win.`,
    );
    const queryRow = row(`query of ${named(place.token)}`, query, "score", "share");
    why.replaceChildren(...queryRow, ...shownKeys.flatMap(keyRow), explained);
  }

  function renderMachine(place) {
    for (const { draw } of parts) draw(place);
    told.setAttribute("aria-live", timer ? "off" : "polite");
    told.textContent =
      parts[parts.lit]?.tell(place) ?? "Point at a part of the machine, or press “Follow the letter” and watch.";
  }

  function renderText() {
    const atEnd = paper.scrollHeight - paper.scrollTop - paper.clientHeight < 60;
    paper.replaceChildren(
      model.decode(tokens.slice(0, typed)),
      h("span", { class: "explore-written" }, model.decode(tokens.slice(typed))),
      h("i", { class: "explore-caret" }),
    );
    if (atEnd) paper.scrollTop = paper.scrollHeight;
  }

  function renderRuler(place, places) {
    const seen = place.layers[chosen[0]].weights[chosen[1]];
    const letter = ({ token }, i) => {
      const kind = i === at ? "explore-here" : i > at ? "explore-later" : "";
      const style = i <= at ? `--w: ${seen[i].toFixed(3)}` : "";
      return h("span", { "data-at": i, class: kind, style }, shown[token]);
    };
    ruler.replaceChildren(...places.map(letter));
    // On a phone it is one line, and the chosen letter stays in sight.
    const { offsetLeft, offsetWidth } = ruler.children[at];
    if (offsetLeft < ruler.scrollLeft || offsetLeft + offsetWidth > ruler.scrollLeft + ruler.clientWidth) {
      ruler.scrollLeft = offsetLeft - ruler.clientWidth / 2;
    }
    ruler.setAttribute("aria-valuemax", places.length);
    ruler.setAttribute("aria-valuenow", at + 1);
    const here = `${named(place.token)}, place ${at + 1} of ${places.length}`;
    ruler.setAttribute("aria-valuetext", `${here}; the chosen head looks at ${most(seen)}`);
  }

  function renderSurprise() {
    const letter = (token, i) => {
      const title = nats[i] == null ? "not judged" : `${nats[i].toFixed(2)} nats`;
      return h("span", { style: `--s: ${nats[i] ?? 0}`, title }, model.alphabet[token]);
    };
    surprise.replaceChildren(...tokens.map(letter));
    const judged = nats.map((n, i) => [n, i]).filter(([n]) => n != null);
    const mean = judged.reduce((a, [n]) => a + n, 0) / judged.length;
    const reason = ([n, i]) => {
      const before = model.decode(tokens.slice(Math.max(0, i - 8), i)).replaceAll("\n", "↵");
      return `${named(tokens[i])} after “${before}” (${percent(Math.exp(-n))})`;
    };
    judged.sort((a, b) => b[0] - a[0]);
    const worst = judged.slice(0, 3).map(reason);
    const die =
      mean < Math.log(V)
        ? `as if each were one throw of a die with ${Math.exp(mean).toFixed(1)} sides (blind guessing: ${V})`
        : `worse than guessing blindly (${Math.log(V).toFixed(2)}): it was sure of other letters`;
    sum.textContent = judged.length
      ? `On average ${mean.toFixed(2)} nats a letter (−ln of its probability), ${die}. It least expected ${worst.join("; ")}.`
      : "";
  }

  function renderNext(place) {
    const isLast = at === reader.places.length - 1;
    const here = named(place.token);
    nextTitle.textContent = isLast
      ? `After your text, after ${here}`
      : `After ${here} at place ${at + 1}, where ${named(reader.window[at + 1])} came (to choose the next letter, click the last one)`;
    const pick = (token) => {
      pause();
      step(token);
    };
    fillBars(bars, place.logits, settings, 12, isLast ? pick : null);
  }

  function fillBars(into, logits, how, rows, choose = null) {
    const own = softmax(logits);
    const cut = probabilities(logits, how);
    const order = [...own.keys()].sort((i, j) => own[j] - own[i]);
    const rest = order.slice(rows).reduce((a, i) => a + cut[i], 0);
    const focused = [...into.children].indexOf(document.activeElement);
    const bar = (i) => {
      const attributes = {
        class: `explore-bar ${cut[i] ? "" : "explore-cut"}`,
        onclick: choose && (() => choose(i)),
        "aria-label": choose && `choose ${named(i)}, ${percent(cut[i])}`,
      };
      const both = [own, cut].map((shares) => h("i", { style: `width: ${100 * shares[i]}%` }));
      const track = h("span", { class: "explore-track" }, both);
      const chance = h("span", {}, cut[i] ? percent(cut[i]) : "cut");
      return h(choose ? "button" : "div", attributes, h("b", {}, shown[i]), track, chance);
    };
    const others = `the other ${V - Math.min(V, rows)} characters together: ${percent(rest)}`;
    into.replaceChildren(...order.slice(0, rows).map(bar), h("p", { class: "explore-note" }, others));
    if (focused >= 0) into.children[focused]?.focus();
  }

  function renderLens(place) {
    const final = softmax(place.logits);
    const favourites = [...final.keys()].sort((i, j) => final[j] - final[i]).slice(0, COLORS.length);
    const isFavourite = (i) => favourites.includes(i);
    const band = (i, chance) => {
      const color = COLORS[favourites.indexOf(i)] ?? "var(--quiet)";
      const ink = isFavourite(i) ? (favourites.indexOf(i) ? "#000" : "#fff") : "inherit"; // white on the first color, blue
      const style = `width: ${100 * chance}%; --c: ${color}; --i: ${ink}`;
      return h("span", { style }, chance > 0.035 ? shown[i] : "");
    };
    const opinion = (stream, l) => {
      const chances = softmax(model.head(stream));
      const order = [...chances.keys()].sort((i, j) => chances[j] - chances[i]);
      const others = order.filter((i) => !isFavourite(i)).slice(0, 6);
      const seen = [...favourites, ...others].filter((i) => chances[i] > 0.004);
      const label = l ? `after layer ${l}` : "before layer 1";
      const three = order.slice(0, 3).map((i) => `${named(i)} ${percent(chances[i])}`);
      const attributes = { class: "explore-stack", role: "img", "aria-label": `${label}: ${three.join(", ")}` };
      const bands = seen.map((i) => band(i, chances[i]));
      return h("div", { class: "explore-opinion" }, h("span", {}, label), h("div", attributes, bands));
    };
    lens.replaceChildren(...place.stream.map(opinion));
  }

  function renderCache(_, { length: T }) {
    const size = 9;
    const context = cells.getContext("2d");
    cells.width = CONTEXT * size;
    cells.height = L * (2 * size + 4);
    for (let l = 0; l < L; l++) {
      for (let t = 0; t < CONTEXT; t++) {
        for (let kind = 0; kind < 2; kind++) {
          context.fillStyle = t >= T ? "#80808030" : t >= T - fresh ? COLORS[5] : kind ? "#0072B2aa" : COLORS[0];
          context.fillRect(t * size, l * (2 * size + 4) + kind * size, size - 1, size - 1);
        }
      }
    }
    const done = wrapped
      ? `The window was full, and its last letters moved to the front: ${fresh} places recomputed. `
      : `Just now: ${fresh} ${fresh === 1 ? "place" : "places"} computed, ${T - fresh} taken from the cache. `;
    const inAll = `${number(computed)} in all; without a cache it would have been ${number(uncached)}`;
    cacheNote.textContent = `${done}Since you arrived: ${inAll}.`;
    cells.setAttribute(
      "aria-label",
      `The cache: ${many(L, "layer")}, each with keys above and values below, for ${CONTEXT} places, of which ${T} are filled and ${fresh} new`,
    );
  }

  // One head's map: a pixel for each cell, which the style sheet enlarges. Row = query, column = key; the future is grey.
  function map(holder, places, l, k, does) {
    const canvas = holder.querySelector("canvas");
    const T = places.length;
    canvas.width = canvas.height = T;
    const image = new ImageData(T, T);
    const cells = new Uint32Array(image.data.buffer).fill(0x40808080);
    places.forEach(({ layers }, i) => {
      layers[l].weights[k].forEach((w, j) => {
        cells[i * T + j] = GREENS[Math.round(255 * w)];
      });
    });
    canvas.getContext("2d").putImageData(image, 0, 0);
    if (canvas.getAttribute("role")) {
      canvas.setAttribute("aria-label", `Map of layer ${l + 1}, head ${k + 1}, ${T} by ${T}: ${does}`);
    }
  }

  // The head to begin with: one with a firm habit, which the last letter shows, too; best one that looks at the starts of
  // words, and not one that does the same for every letter.
  function firmest() {
    const targets = targetsIn(lettersOf(reader.places));
    const all = habits.flatMap((row, l) => row.map((found, k) => ({ place: [l, k], ...found })));
    const shows = ({ does, place: [l, k] }) => {
      const seen = targets.find((target) => target.does === does)?.at.at(-1) ?? [];
      const weights = reader.places.at(-1).layers[l].weights[k];
      return seen.reduce((sum, i) => sum + weights[i], 0);
    };
    const rank = ({ does, more, ...head }) =>
      more + shows({ does, ...head }) + 0.3 * (does === "the start of the word") - 0.7 * /before|back/.test(does);
    return all.sort((a, b) => rank(b) - rank(a))[0].place;
  }

  // What each head of a model does, in one text for all: a head keeps its name, whatever is typed.
  function habitsOf(gpt) {
    const other = new Reader(gpt);
    other.reread(sample);
    const targets = targetsIn(lettersOf(other.places));
    return heads.map((row, l) => row.map((_, k) => habit(targets, other.places, l, k)));
  }

  // In words, how much of its attention a head spends on its habit in these places, on average.
  function attentionTo(targets, does, places, l, k) {
    const at = targets.find((target) => target.does === does)?.at.slice(3) ?? [];
    if (!at.length) return "";
    if (!at.some((seen) => seen.length)) return " (none in your text)";
    const spent = (seen, t) => seen.reduce((sum, s) => sum + places[t + 3].layers[l].weights[k][s], 0);
    return ` ${percent(at.reduce((sum, seen, t) => sum + spent(seen, t), 0) / at.length)}`;
  }

  function lettersOf(places) {
    return places.map(({ token }) => model.alphabet[token]);
  }

  function choose(l, k) {
    chosen = [l, k];
    render();
    // On a phone the large map stands above the screen.
    if (large.getBoundingClientRect().bottom < strip.offsetHeight) largeTitle.scrollIntoView({ block: "center" });
  }

  function where(i) {
    return i === at ? "itself" : `${named(reader.window[i])} ${at - i === 1 ? "just before" : `${at - i} back`}`;
  }

  function answer(stream) {
    const chances = softmax(model.head(stream));
    return `${named(best(chances))} (${percent(Math.max(...chances))})`;
  }

  function most(weights) {
    return where(best(weights));
  }

  function list(weights) {
    const order = [...weights.keys()].sort((i, j) => weights[j] - weights[i]).slice(0, 3);
    return order.map((i) => `${where(i)} (${percent(weights[i])})`).join(", ");
  }
}

// ---------------------------------------------------------------- the habits of heads
// For each habit, and for each letter from the fourth on: the places at which a head with this habit looks.
function targetsIn(letters) {
  const begins = [];
  const is = letters.map((c) => LETTER.test(c));
  const vowel = letters.map((c) => /[aeiou]/i.test(c));
  letters.forEach((_, t) => {
    begins.push(t && is[t - 1] ? begins[t - 1] : t);
  });
  const habits = {
    itself: (t, s) => s === t,
    "the letter before": (t, s) => s === t - 1,
    "two letters back": (t, s) => s === t - 2,
    "three letters back": (t, s) => s === t - 3,
    "the first letter": (_, s) => s === 0,
    "starts of words": (_, s) => is[s] && begins[s] === s,
    "the start of the word": (t, s) => s === begins[t] && s < t - 1,
    "the same letter, earlier": (t, s) => s < t && letters[s] === letters[t],
    vowels: (_, s) => vowel[s],
    consonants: (_, s) => is[s] && !vowel[s],
    "ends of lines": (_, s) => letters[s] === "\n",
    "spaces and marks": (_, s) => !is[s],
    "the last few letters": (t, s) => s > t - 4,
    "the last dozen letters": (t, s) => s > t - 12,
  };
  const upTo = (t) => Array.from({ length: t + 1 }, (_, s) => s);
  return Object.entries(habits).map(([does, looks]) => ({
    does,
    at: letters.map((_, t) => (t < 3 ? [] : upTo(t).filter((s) => looks(t, s)))),
  }));
}

// What a head looks at, in words: the habit on which it spends most more of its attention than a head that looks evenly at
// the last eight letters, if that is a sixth at least; and how much more.
function habit(targets, places, l, k) {
  const rows = places.map(({ layers }) => layers[l].weights[k]);
  let best = { does: "", more: 0 };
  for (const { does, at } of targets) {
    let sum = 0;
    let n = 0;
    at.forEach((seen, t) => {
      for (const s of seen) sum += rows[t][s] - (s > t - 8 ? 1 / Math.min(8, t + 1) : 0);
      n += seen.length > 0;
    });
    if (n > 2 && sum / n > best.more) best = { does, more: sum / n };
  }
  if (best.more > 1 / 6) return best;
  // Otherwise, how far it looks: whether it is as spread as an even look at three quarters of the letters (2 ** its entropy
  // is how many those are), and whether the nearest dozen gets more than half.
  const mean = (of) => rows.slice(3).reduce((sum, row) => sum + of(row), 0) / (rows.length - 3);
  const spread = mean((row) => 2 ** row.reduce((sum, w) => sum - (w > 0 ? w * Math.log2(w) : 0), 0) / row.length);
  if (spread > 0.75) return { does: "all letters about equally", more: 0 };
  const nearest = mean((row) => row.slice(-12).reduce((a, b) => a + b));
  return { does: nearest > 0.5 ? "the last dozen letters" : "letters near and far", more: best.more };
}

// ---------------------------------------------------------------- small things
function h(tag, attributes, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element[name] = value;
    else if (value != null) element.setAttribute(name, value);
  }
  element.append(...children.flat(Infinity).filter((child) => child || child === 0));
  return element;
}

// A canvas with a name from the start: sections out of sight are drawn later, and a screen reader may come before.
const picture = (label, attributes = {}) => h("canvas", { role: "img", "aria-label": label, ...attributes });
const size = (values) => values.reduce((a, v) => Math.max(a, Math.abs(v)), 1e-9); // of the largest
const norm = (values) => Math.hypot(...values);
const best = (values) => values.indexOf(Math.max(...values));
const number = (n) => n.toLocaleString("en");
const many = (n, thing) => `${n} ${thing}${n === 1 ? "" : "s"}`;
const percent = (p) => (p > 0 && p < 0.005 ? "<1%" : `${Math.round(100 * p)}%`);
const capital = (text) => text[0].toUpperCase() + text.slice(1);
const duration = (seconds) =>
  seconds < 2 ? "a second" : seconds < 90 ? `${seconds} seconds` : `${Math.round(seconds / 60)} minutes`;

function origin(about, { n_layer, n_head, n_embd, context_length }) {
  const sizes = `${many(n_layer, "layer")}, ${many(n_head, "head")}, ${n_embd} channels`;
  const facts = [`${sizes}, a window of ${context_length} letters`];
  if (about.preset) {
    const run = `trained with preset ${about.preset} and seed ${about.seed} on ${about.corpus}`;
    facts.push(`${run}, ${number(about.step)} steps, validation loss ${about.loss}`);
  }
  if (about.commit) facts.push(`PyTorch ${about.torch}, commit ${about.commit}`);
  return facts.join(" · ");
}

// Numbers as cells, `wide` in a row: blue above zero, orange below, transparent at zero, so that it suits any page.
function signed(canvas, values, wide) {
  const largest = size(values);
  paint(canvas, wide, Math.ceil(values.length / wide), (i) => {
    const color = values[i] < 0 ? [213, 94, 0] : [0, 114, 178];
    return [...color, 255 * Math.min(1, Math.abs(values[i]) / largest) ** 0.7];
  });
}

// Weights, a row for each head, over T columns.
function share(canvas, rows, T) {
  paint(canvas, T, rows.length, (i) => [0, 158, 115, 255 * (rows[Math.floor(i / T)][i % T] ?? 0) ** 0.6]);
}

function paint(canvas, width, height, color) {
  Object.assign(canvas, { width, height });
  const image = new ImageData(width, height);
  for (let i = 0; i < width * height; i++) image.data.set(color(i), 4 * i);
  canvas.getContext("2d").putImageData(image, 0, 0);
}

function columns(canvas, values) {
  const low = Math.min(...values);
  const high = Math.max(...values);
  const context = canvas.getContext("2d");
  Object.assign(canvas, { width: 4 * values.length, height: 60 });
  values.forEach((v, i) => {
    context.fillStyle = v === high ? COLORS[5] : COLORS[0];
    const tall = 4 + (56 * (v - low)) / (high - low || 1);
    context.fillRect(4 * i, 60 - tall, 3, tall);
  });
}

const CSS = `
.explore-play { color-scheme: light dark; --ink: light-dark(#1d2127, #e8e6e1); --soft: light-dark(#565d66, #a9adb3); --card: light-dark(#fff, #1e2126);
  --edge: light-dark(#e3dfd8, #33373d); --quiet: light-dark(#d9d9d9, #4a4e55); --blue: light-dark(#0072B2, #6cbcec); --orange: light-dark(#b34d00, #ff9a52);
  --green: light-dark(#00785a, #3fcfa3); --mono: ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace;
  color: var(--ink); font: 1rem/1.55 system-ui, -apple-system, "Segoe UI", sans-serif; overflow-wrap: break-word; }
[data-jp-theme-light="false"] .explore-play { color-scheme: dark; }
[data-jp-theme-light="true"] .explore-play { color-scheme: light; }
.explore-play *, .explore-play *::before { box-sizing: border-box; }
.explore-play section { margin: 4.5rem 0 0; }
.explore-play .explore-stage { margin-top: 1rem; }
.explore-play h1 { font: 600 clamp(2rem, 6vw, 3.2rem)/1.1 Georgia, "Times New Roman", serif; margin: 2.2rem 0 0.8rem; letter-spacing: -0.02em; }
.explore-play h2 { font: 600 clamp(1.5rem, 4vw, 2rem)/1.2 Georgia, "Times New Roman", serif; margin: 0 0 0.6rem; letter-spacing: -0.01em; }
.explore-play h3 { font-size: 0.95rem; font-weight: 600; margin: 0 0 0.5rem; }
.explore-play .explore-lead { font-size: 1.2rem; color: var(--soft); max-width: 42rem; margin: 0 0 1.8rem; }
.explore-play .explore-say { max-width: 44rem; margin: 0 0 1.2rem; }
.explore-play .explore-note, .explore-play footer, .explore-play .explore-hint { color: var(--soft); font-size: 0.875rem; margin: 0.4rem 0; } .explore-play .explore-stage > .explore-note { min-height: 1.3em; }
.explore-play footer { border-top: 1px solid var(--edge); margin-top: 4.5rem; padding-top: 1rem; }
.explore-play .explore-line span { display: block; font-weight: 600; margin-bottom: 0.35rem; }
.explore-play textarea { width: 100%; font: 1.35rem/1.5 Georgia, "Times New Roman", serif; padding: 0.7rem 0.9rem; color: var(--ink); background: var(--card); border: 2px solid var(--blue);
  border-radius: 10px; resize: vertical; }
.explore-play button { font: inherit; color: var(--ink); background: var(--card); border: 1px solid var(--edge); border-radius: 999px; padding: 0.5rem 1.1rem; cursor: pointer; min-height: 2.75rem; }
.explore-play button:hover { border-color: var(--blue); }
.explore-play :focus-visible { outline: 3px solid var(--orange); outline-offset: 2px; }
.explore-play .explore-main { background: #0072B2; border-color: #0072B2; color: #fff; font-weight: 600; min-width: 9rem; }
.explore-play .explore-buttons { display: flex; flex-wrap: wrap; gap: 0.6rem; align-items: center; margin: 0.8rem 0; }
.explore-play input[type="range"] { accent-color: light-dark(#0072B2, #6cbcec); width: 100%; min-height: 1.6rem; margin: 0; }
.explore-play .explore-pace { display: flex; gap: 0.5rem; align-items: center; color: var(--soft); width: 10rem; }
.explore-play .explore-when { color: var(--soft); flex: 1 1 16rem; max-width: 32rem; padding-right: 1rem; }
.explore-play .explore-stops { display: flex; justify-content: space-between; padding: 0 0.5rem; font-size: 0.8rem; line-height: 1.2; font-variant-numeric: tabular-nums; }
.explore-play .explore-stops span { display: flex; flex-direction: column; align-items: center; width: 0; white-space: nowrap; }
.explore-play .explore-stops span::before { content: ""; height: 6px; border-left: 2px solid; margin-bottom: 2px; }
.explore-play .explore-paper { font: 1.25rem/1.6 Georgia, "Times New Roman", serif; white-space: pre-wrap; background: var(--card); border: 1px solid var(--edge); border-radius: 10px;
  padding: 1rem 1.2rem; margin: 0.8rem 0 0; height: 13.5rem; overflow-y: auto; box-shadow: 0 1px 8px light-dark(#0000000d, #0000); }
.explore-play .explore-written { color: var(--blue); }
.explore-play .explore-caret { display: inline-block; width: 2px; height: 1.1em; vertical-align: text-bottom; background: var(--orange); margin-left: 2px; }
.explore-play .explore-unseen { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); margin: 0; }
.explore-play .explore-strip { position: sticky; top: 0; z-index: 2; margin: 1.5rem -0.5rem 0; padding: 0.5rem; background: var(--jp-layout-color0, light-dark(#fdfcfa, #15171b)); border-bottom: 1px solid var(--edge); }
.explore-play .explore-hint { display: flex; flex-wrap: wrap; gap: 0.3rem 0.6rem; align-items: center; margin: 0.2rem 0 0; font-size: 0.8rem; } .explore-play .explore-hint p { flex: 1 1 16rem; margin: 0; }
.explore-play .explore-hint button { padding: 0.1rem 0.8rem; min-height: 1.75rem; }
.explore-play .explore-ruler { display: flex; flex-wrap: wrap; font: 600 0.95rem/1 var(--mono); cursor: crosshair; touch-action: manipulation; border-radius: 6px; }
.explore-play .explore-ruler span { flex: 0 0 auto; min-width: 0.92rem; text-align: center; padding: 0.35rem 0.08rem 0.3rem; border-radius: 3px; border: 2px solid transparent;
  background: color-mix(in srgb, #009E73 calc(var(--w, 0) * 70%), transparent); border-bottom: calc(1px + var(--w, 0) * 4px) solid color-mix(in srgb, var(--green) calc(var(--w, 0) * 100%), transparent); }
.explore-play .explore-ruler .explore-later { color: var(--soft); font-weight: 400; }
.explore-play .explore-ruler .explore-here { border-color: var(--orange); }
.explore-play.explore-holding .explore-ruler .explore-here { background: var(--orange); color: var(--card); }
.explore-play .explore-key { color: var(--green); font-weight: 600; }
.explore-play .explore-blue { color: var(--blue); font-weight: 600; }
.explore-play .explore-orange { color: var(--orange); font-weight: 600; }
.explore-play .explore-two { display: grid; gap: 1.5rem 2.5rem; grid-template-columns: minmax(0, 1fr); }
@media (min-width: 760px) { .explore-play .explore-two { grid-template-columns: minmax(0, 3fr) minmax(0, 2fr); }
  .explore-play .explore-maps { grid-template-columns: minmax(0, 1fr) minmax(0, 1fr); } .explore-play .explore-learned { grid-template-columns: minmax(0, 2fr) minmax(0, 1.3fr) minmax(0, 1fr); } }
.explore-play .explore-bar { display: grid; grid-template-columns: 1.6rem 1fr 3rem; gap: 0.6rem; align-items: center; width: 100%; min-height: 1.75rem; padding: 0 0.4rem; border: 0; border-radius: 5px;
  background: none; text-align: left; font-variant-numeric: tabular-nums; }
.explore-play .explore-bar > :last-child { text-align: right; }
.explore-play button.explore-bar:hover { background: light-dark(#0072B218, #6cbcec22); }
.explore-play .explore-bar b { font: 600 1.05rem/1 var(--mono); text-align: center; }
.explore-play .explore-track { position: relative; height: 1.1rem; }
.explore-play .explore-track i { position: absolute; left: 0; top: 0; bottom: 0; min-width: 1px; border-radius: 0 3px 3px 0; background: light-dark(#0072B233, #6cbcec44); }
.explore-play .explore-track i + i { top: 0.28rem; bottom: 0.28rem; background: light-dark(#0072B2, #6cbcec); }
.explore-play .explore-cut > b, .explore-play .explore-cut > span:last-child { color: var(--soft); text-decoration: line-through; }
.explore-play .explore-sliders label { display: grid; grid-template-columns: 1fr auto; margin-bottom: 1.1rem; }
.explore-play .explore-sliders input { grid-column: 1 / 3; }
.explore-play output { font-weight: 600; font-variant-numeric: tabular-nums; }
.explore-play .explore-map { display: block; position: relative; aspect-ratio: 1; background: var(--card); overflow: hidden; }
.explore-play .explore-map canvas { width: 100%; height: 100%; display: block; image-rendering: pixelated; }
.explore-play .explore-row { position: absolute; left: 0; right: 0; top: calc(100% * var(--at) / var(--t)); height: calc(100% / var(--t)); box-shadow: inset 0 0 0 2px #ff7a1a; pointer-events: none; }
.explore-play .explore-head .explore-row { box-shadow: none; outline: 1px solid #ff7a1a; }
.explore-play.explore-pointing .explore-head .explore-row { box-shadow: 0 0 0 20rem light-dark(#ffffff66, #1e212666); }
.explore-play .explore-framed { display: grid; grid-template: auto auto / 1rem 1fr; container-type: inline-size; }
.explore-play .explore-framed .explore-map { grid-area: 2 / 2; cursor: crosshair; touch-action: pan-y; }
.explore-play .explore-axis { display: flex; font: 600 min(0.85rem, calc(100cqw / var(--t)))/1 var(--mono); color: var(--soft); }
.explore-play .explore-axis span { flex: 1 1 0; min-width: 0; min-height: 0; display: grid; place-items: center; overflow: visible; }
.explore-play .explore-top { grid-area: 1 / 2; padding-bottom: 3px; } .explore-play .explore-left { grid-area: 2 / 1; flex-direction: column; }
.explore-play .explore-axis .explore-here { color: var(--orange); }
.explore-play .explore-looks { margin: 0.7rem 0 0; min-height: 3.1em; }
.explore-play .explore-why { display: grid; grid-template-columns: auto minmax(4rem, 1fr) auto auto; gap: 0.25rem 0.7rem; align-items: center; font-size: 0.875rem; font-variant-numeric: tabular-nums; }
.explore-play .explore-why canvas { width: 100%; height: 14px; image-rendering: pixelated; background: light-dark(#f1efeb, #262a30); } .explore-play .explore-why p { grid-column: 1 / -1; }
.explore-play .explore-why > :nth-child(4n + 3), .explore-play .explore-why > :nth-child(4n) { text-align: right; }
.explore-play .explore-heads { display: grid; grid-template-columns: repeat(var(--h), minmax(0, 1fr)); gap: 0.5rem; margin-bottom: 0.8rem; }
.explore-play .explore-head { padding: 3px 3px 0; border-radius: 6px; border: 2px solid transparent; background: none; line-height: 1.15; display: flex; flex-direction: column; text-align: center; }
.explore-play .explore-head[aria-pressed="true"] { border-color: var(--orange); background: var(--card); }
.explore-play .explore-floor { grid-column: 1 / -1; font-size: 0.75rem; color: var(--soft); }
.explore-play .explore-off .explore-map { opacity: 0.25; }
.explore-play .explore-habit { display: block; font-size: 0.75rem; color: var(--soft); padding: 0.25rem 0; min-height: 2.6em; }
.explore-play .explore-told { position: sticky; bottom: 0.5rem; min-height: 4.4rem; margin: 0.8rem 0 0; padding: 0.6rem 0.9rem; border: 1px solid var(--edge); border-left: 4px solid var(--orange); border-radius: 6px; background: var(--card); }
.explore-play .explore-machine { position: relative; padding-left: 1.6rem; }
.explore-play .explore-machine::before { content: ""; position: absolute; left: 0.55rem; top: 1.4rem; bottom: 1.4rem; width: 4px; border-radius: 2px; background: light-dark(#0072B255, #6cbcec66); }
.explore-play .explore-part { position: relative; display: grid; grid-template-columns: 9.5rem minmax(0, 1fr); gap: 0.4rem 1rem; align-items: center; width: 100%; text-align: left; border: 1px solid transparent;
  border-radius: 8px; background: none; padding: 0.35rem 0.6rem; min-height: 2.4rem; scroll-margin: 7rem 0 8rem; }
.explore-play .explore-part::before { content: "+"; position: absolute; left: -1.55rem; top: calc(50% - 0.6rem); width: 1.2rem; height: 1.2rem; border-radius: 50%; font: 700 0.9rem/1.1rem system-ui; text-align: center;
  background: var(--card); border: 1px solid var(--soft); color: var(--ink); }
.explore-play .explore-stream::before, .explore-play .explore-ends::before { content: ""; width: 0.8rem; height: 0.8rem; left: -1.35rem; top: calc(50% - 0.4rem); background: var(--blue); border-color: var(--blue); }
.explore-play .explore-lit { background: var(--card); border-color: var(--orange); box-shadow: 0 0 0 2px var(--orange); }
.explore-play .explore-lit::before { background: var(--orange); border-color: var(--orange); color: var(--card); }
.explore-play .explore-label small { display: block; color: var(--soft); font-size: 0.75rem; line-height: 1.2; }
.explore-play .explore-numbers { display: grid; gap: 3px; align-items: center; }
.explore-play .explore-numbers canvas { width: 100%; display: block; image-rendering: pixelated; background: light-dark(#f1efeb, #262a30); border-radius: 2px; }
.explore-play .explore-big { font: 700 1.5rem/1.2 var(--mono); color: var(--orange); }
.explore-play .explore-layer { border-top: 1px dashed var(--edge); padding: 0.5rem 0; } .explore-play .explore-layer h3 { margin: 0.2rem 0 0.2rem 0.6rem; color: var(--soft); }
.explore-play .explore-opinion { display: grid; grid-template-columns: 7.5rem minmax(0, 1fr); gap: 0.8rem; align-items: center; margin: 0.4rem 0; }
.explore-play .explore-stack { display: flex; height: 2.3rem; border-radius: 6px; overflow: hidden; background: light-dark(#efedea, #2b2e34); }
.explore-play .explore-stack span { background: var(--c); color: var(--i); font: 600 1rem/2.3rem var(--mono); text-align: center; overflow: hidden; border-right: 1px solid var(--card); transition: width 0.25s; }
.explore-play .explore-surprise { font: 1.35rem/2 Georgia, "Times New Roman", serif; white-space: pre-wrap; margin: 0; }
.explore-play .explore-surprise span { background: color-mix(in srgb, #E69F00 calc(min(var(--s), 6) * 11%), transparent); border-bottom: calc(min(var(--s), 6) * 1.1px) solid var(--orange); }
.explore-play .explore-scroll { overflow-x: auto; } .explore-play .explore-cells { display: block; width: 100%; min-width: 18rem; image-rendering: pixelated; }
.explore-play .explore-verse { height: auto; min-height: 15rem; margin: 0; font-size: 1.1rem; }
@media (max-width: 600px) { .explore-play .explore-part { grid-template-columns: minmax(0, 1fr); } .explore-play .explore-opinion { grid-template-columns: minmax(0, 1fr); gap: 0.1rem; } .explore-play .explore-heads { gap: 0.2rem; }
  .explore-play .explore-habit { font-size: 0.7rem; } .explore-play .explore-ruler { position: relative; flex-wrap: nowrap; overflow-x: auto; }
  .explore-play .explore-ruler span { min-width: 1.08rem; padding-inline: 0; border-width: 1px; } .explore-play .explore-hint p { flex-basis: 100%; } }
@media (prefers-reduced-motion: reduce) { .explore-play * { transition: none !important; } }
`;
