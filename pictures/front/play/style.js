// How the page looks, in light and in dark.
export const STYLE = `
.explore-play {
  color-scheme: light dark;
  --ink: light-dark(#1d2127, #e8e6e1);
  --soft: light-dark(#565d66, #a9adb3);
  --card: light-dark(#fff, #1e2126);
  --edge: light-dark(#e3dfd8, #33373d);
  --quiet: light-dark(#d9d9d9, #4a4e55);
  --blue: light-dark(#0072b2, #6cbcec);
  --orange: light-dark(#b34d00, #ff9a52);
  --green: light-dark(#00785a, #3fcfa3);
  --mono: ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace;
  color: var(--ink);
  font:
    1rem / 1.55 system-ui,
    -apple-system,
    "Segoe UI",
    sans-serif;
  overflow-wrap: break-word;
  container: explore-play / inline-size;
}
[data-jp-theme-light="false"] .explore-play {
  color-scheme: dark;
}
[data-jp-theme-light="true"] .explore-play {
  color-scheme: light;
}
.explore-play *,
.explore-play *::before {
  box-sizing: border-box;
}
.explore-play section {
  margin: 4.5rem 0 0;
}
.explore-play .explore-stage {
  margin-top: 1rem;
}
.explore-play h1 {
  font:
    600 clamp(2rem, 6vw, 3.2rem) / 1.1 Georgia,
    "Times New Roman",
    serif;
  margin: 2.2rem 0 0.8rem;
  letter-spacing: -0.02em;
}
.explore-play h2 {
  font:
    600 clamp(1.5rem, 4vw, 2rem) / 1.2 Georgia,
    "Times New Roman",
    serif;
  margin: 0 0 0.6rem;
  letter-spacing: -0.01em;
}
.explore-play h2 {
  scroll-margin-top: 9rem; /* below the strip of letters, which stays */
}
.explore-play h3 {
  font-size: 0.95rem;
  font-weight: 600;
  margin: 0 0 0.5rem;
}
.explore-play .explore-lead {
  font-size: 1.2rem;
  color: var(--soft);
  max-width: 42rem;
  margin: 0 0 1.8rem;
}
.explore-play .explore-say {
  max-width: 44rem;
  margin: 0 0 1.2rem;
}
.explore-play .explore-contents {
  display: flex;
  flex-wrap: wrap;
  gap: 0.2rem 1rem;
  margin: 1.2rem 0 0;
}
.explore-play .explore-contents a {
  color: var(--blue);
}
.explore-play .explore-note,
.explore-play footer,
.explore-play .explore-hint {
  color: var(--soft);
  font-size: 0.875rem;
  margin: 0.4rem 0;
}
.explore-play .explore-stage > .explore-note {
  min-height: 1.3em;
}
.explore-play footer {
  border-top: 1px solid var(--edge);
  margin-top: 4.5rem;
  padding-top: 1rem;
}
.explore-play .explore-line span {
  display: block;
  font-weight: 600;
  margin-bottom: 0.35rem;
}
.explore-play textarea {
  width: 100%;
  font:
    1.35rem / 1.5 Georgia,
    "Times New Roman",
    serif;
  padding: 0.7rem 0.9rem;
  color: var(--ink);
  background: var(--card);
  border: 2px solid var(--blue);
  border-radius: 10px;
  resize: vertical;
}
.explore-play button {
  font: inherit;
  color: var(--ink);
  background: var(--card);
  border: 1px solid var(--edge);
  border-radius: 999px;
  padding: 0.5rem 1.1rem;
  cursor: pointer;
  min-height: 2.75rem;
}
.explore-play button:hover {
  border-color: var(--blue);
}
.explore-play :focus-visible {
  outline: 3px solid var(--orange);
  outline-offset: 2px;
}
.explore-play .explore-main {
  background: #0072b2;
  border-color: #0072b2;
  color: #fff;
  font-weight: 600;
  min-width: 9rem;
}
.explore-play .explore-buttons {
  display: flex;
  flex-wrap: wrap;
  gap: 0.6rem;
  align-items: center;
  margin: 0.8rem 0;
}
.explore-play input[type="range"] {
  accent-color: light-dark(#0072b2, #6cbcec);
  width: 100%;
  min-height: 1.6rem;
  margin: 0;
}
.explore-play .explore-pace {
  display: flex;
  gap: 0.5rem;
  align-items: center;
  color: var(--soft);
  width: 10rem;
}
.explore-play .explore-when {
  color: var(--soft);
  flex: 1 1 16rem;
  max-width: 32rem;
  padding-right: 1rem;
}
.explore-play .explore-stops {
  display: flex;
  justify-content: space-between;
  padding: 0 0.5rem;
  font-size: 0.8rem;
  line-height: 1.2;
  font-variant-numeric: tabular-nums;
}
.explore-play .explore-stops span {
  display: flex;
  flex-direction: column;
  align-items: center;
  width: 0;
  white-space: nowrap;
}
.explore-play .explore-stops span::before {
  content: "";
  height: 6px;
  border-left: 2px solid;
  margin-bottom: 2px;
}
.explore-play .explore-paper {
  font:
    1.25rem / 1.6 Georgia,
    "Times New Roman",
    serif;
  white-space: pre-wrap;
  background: var(--card);
  border: 1px solid var(--edge);
  border-radius: 10px;
  padding: 1rem 1.2rem;
  margin: 0.8rem 0 0;
  height: 13.5rem;
  overflow-y: auto;
  box-shadow: 0 1px 8px light-dark(#0000000d, #0000);
}
.explore-play .explore-written {
  color: var(--blue);
}
.explore-play .explore-without {
  color: var(--orange);
}
.explore-play .explore-opening .explore-paper {
  height: calc(8rem + 2px); /* four lines, none of them cut */
  padding: 0 1.2rem;
  margin-top: 0;
  scroll-padding: 0;
}
.explore-play .explore-seen {
  border-radius: 3px;
  background: color-mix(in srgb, var(--green) 55%, transparent);
}
.explore-play .explore-opening .explore-note {
  font-size: 1rem;
  min-height: 2.8em;
}
.explore-play .explore-caret {
  display: inline-block;
  width: 2px;
  height: 1.1em;
  vertical-align: text-bottom;
  background: var(--orange);
  margin-left: 2px;
}
.explore-play .explore-unseen {
  position: absolute;
  width: 1px;
  height: 1px;
  overflow: hidden;
  clip-path: inset(50%);
  margin: 0;
}
.explore-play .explore-strip {
  position: sticky;
  top: 0;
  z-index: 2;
  margin: 1.5rem -0.5rem 0;
  padding: 0.5rem;
  background: var(--jp-layout-color0, light-dark(#fdfcfa, #15171b));
  border-bottom: 1px solid var(--edge);
}
.explore-play .explore-hint {
  display: flex;
  flex-wrap: wrap;
  gap: 0.3rem 0.6rem;
  align-items: center;
  margin: 0.2rem 0 0;
  font-size: 0.8rem;
}
.explore-play .explore-hint button {
  padding: 0.1rem 0.8rem;
  min-height: 1.75rem;
}
.explore-play .explore-ruler {
  display: flex;
  flex-wrap: wrap;
  font: 600 0.95rem / 1 var(--mono);
  cursor: crosshair;
  touch-action: manipulation;
  border-radius: 6px;
}
.explore-play .explore-ruler span {
  flex: 0 0 auto;
  min-width: 0.92rem;
  text-align: center;
  padding: 0.35rem 0.08rem 0.3rem;
  border-radius: 3px;
  border: 2px solid transparent;
  background: color-mix(in srgb, #009e73 calc(var(--w, 0) * 70%), transparent);
  border-bottom: calc(1px + var(--w, 0) * 4px) solid
    color-mix(in srgb, var(--green) calc(var(--w, 0) * 100%), transparent);
}
.explore-play .explore-ruler .explore-later {
  color: var(--soft);
  font-weight: 400;
}
.explore-play .explore-ruler .explore-here {
  border-color: var(--orange);
}
.explore-play.explore-holding .explore-ruler .explore-here {
  background: var(--orange);
  color: var(--card);
}
.explore-play .explore-key {
  color: var(--green);
  font-weight: 600;
}
.explore-play .explore-blue {
  color: var(--blue);
  font-weight: 600;
}
.explore-play .explore-orange {
  color: var(--orange);
  font-weight: 600;
}
.explore-play .explore-two {
  display: grid;
  gap: 1.5rem 2.5rem;
  grid-template-columns: minmax(0, 1fr);
}
@container explore-play (min-width: 700px) {
  .explore-play .explore-two {
    grid-template-columns: minmax(0, 3fr) minmax(0, 2fr);
  }
  .explore-play .explore-maps {
    grid-template-columns: minmax(0, 1fr) minmax(0, 1fr);
  }
  .explore-play .explore-learned {
    grid-template-columns: minmax(0, 2fr) minmax(0, 1.3fr) minmax(0, 1fr);
  }
}
.explore-play .explore-bar {
  display: grid;
  grid-template-columns: 1.6rem 1fr 3rem;
  gap: 0.6rem;
  align-items: center;
  width: 100%;
  min-height: 1.75rem;
  padding: 0 0.4rem;
  border: 0;
  border-radius: 5px;
  background: none;
  text-align: left;
  font-variant-numeric: tabular-nums;
}
.explore-play .explore-bar > :last-child {
  text-align: right;
}
.explore-play button.explore-bar:hover {
  background: light-dark(#0072b218, #6cbcec22);
}
.explore-play .explore-bar b {
  font: 600 1.05rem / 1 var(--mono);
  text-align: center;
}
.explore-play .explore-track {
  position: relative;
  height: 1.1rem;
}
.explore-play .explore-track i {
  position: absolute;
  left: 0;
  top: 0;
  bottom: 0;
  min-width: 1px;
  border-radius: 0 3px 3px 0;
  background: light-dark(#0072b233, #6cbcec44);
}
.explore-play .explore-track i + i {
  top: 0.28rem;
  bottom: 0.28rem;
  background: light-dark(#0072b2, #6cbcec);
}
.explore-play .explore-cut > b,
.explore-play .explore-cut > span:last-child {
  color: var(--soft);
  text-decoration: line-through;
}
.explore-play .explore-sliders label {
  display: grid;
  grid-template-columns: 1fr auto;
  margin-bottom: 1.1rem;
}
.explore-play .explore-sliders input {
  grid-column: 1 / 3;
}
.explore-play output {
  font-weight: 600;
  font-variant-numeric: tabular-nums;
}
.explore-play .explore-map {
  display: block;
  position: relative;
  aspect-ratio: 1;
  background: var(--card);
  overflow: hidden;
}
.explore-play :is(.explore-map, .explore-numbers) canvas {
  color: light-dark(#009e73, #3fcfa3); /* of weights: pixels.js reads it */
}
.explore-play .explore-map canvas {
  width: 100%;
  height: 100%;
  display: block;
  image-rendering: pixelated;
}
.explore-play .explore-row {
  position: absolute;
  left: 0;
  right: 0;
  top: calc(100% * var(--at) / var(--t));
  height: calc(100% / var(--t));
  box-shadow: inset 0 0 0 2px #ff7a1a;
  pointer-events: none;
}
.explore-play .explore-head .explore-row {
  box-shadow: none;
  outline: 1px solid #ff7a1a;
}
.explore-play.explore-pointing .explore-head .explore-row {
  box-shadow: 0 0 0 20rem light-dark(#ffffff66, #1e212666);
}
.explore-play .explore-framed {
  display: grid;
  grid-template: auto auto / 1rem 1fr;
  container-type: inline-size;
}
.explore-play .explore-framed .explore-map {
  grid-area: 2 / 2;
  cursor: crosshair;
  touch-action: pan-y;
}
.explore-play .explore-axis {
  display: flex;
  font: 600 clamp(0.6rem, calc(100cqw / var(--t)), 0.85rem) / 1 var(--mono);
  color: var(--soft);
}
.explore-play .explore-axis span {
  flex: 1 1 0;
  min-width: 0;
  min-height: 0;
  display: grid;
  place-items: center;
  overflow: visible;
}
.explore-play .explore-top {
  grid-area: 1 / 2;
  padding-bottom: 3px;
}
.explore-play .explore-left {
  grid-area: 2 / 1;
  flex-direction: column;
}
.explore-play .explore-axis .explore-here {
  color: var(--orange);
}
.explore-play .explore-looks {
  margin: 0.7rem 0 0;
  min-height: 3.1em;
}
.explore-play .explore-why {
  display: grid;
  grid-template-columns: auto minmax(4rem, 1fr) auto auto;
  gap: 0.25rem 0.7rem;
  align-items: center;
  font-size: 0.875rem;
  font-variant-numeric: tabular-nums;
}
.explore-play .explore-why canvas {
  width: 100%;
  height: 14px;
  image-rendering: pixelated;
  background: light-dark(#f1efeb, #262a30);
}
.explore-play .explore-why p {
  grid-column: 1 / -1;
}
.explore-play .explore-why > :nth-child(4n + 3),
.explore-play .explore-why > :nth-child(4n) {
  text-align: right;
}
.explore-play .explore-heads {
  display: grid;
  grid-template-columns: repeat(var(--h), minmax(0, 1fr));
  gap: 0.5rem;
  margin-bottom: 0.8rem;
}
.explore-play .explore-head {
  padding: 3px 3px 0;
  border-radius: 6px;
  border: 2px solid transparent;
  background: none;
  line-height: 1.15;
  display: flex;
  flex-direction: column;
  text-align: center;
}
.explore-play .explore-head[aria-pressed="true"] {
  border-color: var(--orange);
  background: var(--card);
}
.explore-play .explore-floor {
  grid-column: 1 / -1;
  font-size: 0.75rem;
  color: var(--soft);
}
.explore-play .explore-off .explore-map {
  opacity: 0.25;
}
.explore-play .explore-habit {
  display: block;
  font-size: 0.75rem;
  color: var(--soft);
  padding: 0.25rem 0;
  min-height: 2.6em;
}
.explore-play .explore-told {
  position: sticky;
  bottom: 0.5rem;
  min-height: 4.4rem;
  margin: 0.8rem 0 0;
  padding: 0.6rem 0.9rem;
  border: 1px solid var(--edge);
  border-left: 4px solid var(--orange);
  border-radius: 6px;
  background: var(--card);
}
.explore-play .explore-machine {
  position: relative;
  padding-left: 1.6rem;
}
.explore-play .explore-machine::before {
  content: "";
  position: absolute;
  left: 0.55rem;
  top: 1.4rem;
  bottom: 1.4rem;
  width: 4px;
  border-radius: 2px;
  background: light-dark(#0072b255, #6cbcec66);
}
.explore-play .explore-part {
  position: relative;
  display: grid;
  grid-template-columns: 9.5rem minmax(0, 1fr);
  gap: 0.4rem 1rem;
  align-items: center;
  width: 100%;
  text-align: left;
  border: 1px solid transparent;
  border-radius: 8px;
  background: none;
  padding: 0.35rem 0.6rem;
  min-height: 2.4rem;
  scroll-margin: 7rem 0 8rem;
}
.explore-play .explore-part::before {
  content: "+";
  position: absolute;
  left: -1.55rem;
  top: calc(50% - 0.6rem);
  width: 1.2rem;
  height: 1.2rem;
  border-radius: 50%;
  font: 700 0.9rem / 1.1rem system-ui;
  text-align: center;
  background: var(--card);
  border: 1px solid var(--soft);
  color: var(--ink);
}
.explore-play .explore-stream::before,
.explore-play .explore-ends::before {
  content: "";
  width: 0.8rem;
  height: 0.8rem;
  left: -1.35rem;
  top: calc(50% - 0.4rem);
  background: var(--blue);
  border-color: var(--blue);
}
.explore-play .explore-lit {
  background: var(--card);
  border-color: var(--orange);
  box-shadow: 0 0 0 2px var(--orange);
}
.explore-play .explore-lit::before {
  background: var(--orange);
  border-color: var(--orange);
  color: var(--card);
}
.explore-play .explore-label small {
  display: block;
  color: var(--soft);
  font-size: 0.75rem;
  line-height: 1.2;
}
.explore-play .explore-numbers {
  display: grid;
  gap: 3px;
  align-items: center;
}
.explore-play .explore-numbers canvas {
  width: 100%;
  display: block;
  image-rendering: pixelated;
  background: light-dark(#f1efeb, #262a30);
  border-radius: 2px;
}
.explore-play .explore-big {
  font: 700 1.5rem / 1.2 var(--mono);
  color: var(--orange);
}
.explore-play .explore-layer {
  border-top: 1px dashed var(--edge);
  padding: 0.5rem 0;
}
.explore-play .explore-layer h3 {
  margin: 0.2rem 0 0.2rem 0.6rem;
  color: var(--soft);
}
.explore-play .explore-opinion {
  display: grid;
  grid-template-columns: 7.5rem minmax(0, 1fr);
  gap: 0.8rem;
  align-items: center;
  margin: 0.4rem 0;
}
.explore-play .explore-stack {
  display: flex;
  height: 2.3rem;
  border-radius: 6px;
  overflow: hidden;
  background: light-dark(#efedea, #2b2e34);
}
.explore-play .explore-stack span {
  background: var(--c);
  color: var(--i);
  font: 600 1rem / 2.3rem var(--mono);
  text-align: center;
  overflow: hidden;
  border-right: 1px solid var(--card);
  transition: width 0.25s;
}
.explore-play .explore-surprise {
  font:
    1.35rem / 2 Georgia,
    "Times New Roman",
    serif;
  white-space: pre-wrap;
  margin: 0;
}
.explore-play .explore-surprise span {
  background: color-mix(in srgb, #e69f00 calc(min(var(--s), 6) * 11%), transparent);
  border-bottom: calc(min(var(--s), 6) * 1.1px) solid var(--orange);
}
.explore-play .explore-scroll {
  overflow-x: auto;
}
.explore-play .explore-cells {
  display: block;
  width: 100%;
  min-width: 18rem;
  image-rendering: pixelated;
}
.explore-play .explore-verse {
  height: auto;
  min-height: 15rem;
  margin: 0;
  font-size: 1.1rem;
}
@container explore-play (max-width: 570px) {
  .explore-play .explore-part {
    scroll-margin: 10rem 0 13rem;
  }
  .explore-play .explore-part {
    grid-template-columns: minmax(0, 1fr);
  }
  .explore-play .explore-opinion {
    grid-template-columns: minmax(0, 1fr);
    gap: 0.1rem;
  }
  .explore-play .explore-heads {
    gap: 0.2rem;
  }
  .explore-play .explore-habit {
    font-size: 0.7rem;
  }
  .explore-play .explore-ruler {
    position: relative;
    flex-wrap: nowrap;
    overflow-x: auto;
  }
  .explore-play .explore-ruler span {
    min-width: 1.08rem;
    padding-inline: 0;
    border-width: 1px;
  }
}
@media (prefers-reduced-motion: reduce) {
  .explore-play * {
    transition: none !important;
  }
}
`;
