// JupyterLab gives a picture no alternative text, although ours bring one along, as nbconvert and Sphinx read it:
// output.metadata["image/png"].alt. This extension hands it on. `make lab` loads it; there is nothing to build.
const alternative = (app, image) => {
  for (const panel of app.shell.widgets("main")) {
    const cells = panel.node.contains(image) ? (panel.content?.widgets ?? []) : [];
    const area = cells.find((cell) => cell.node.contains(image))?.outputArea;
    const place = area?.widgets.findIndex((output) => output.node.contains(image)) ?? -1;
    if (place >= 0) return area.model.get(place).metadata["image/png"]?.alt;
  }
};

const plugin = {
  id: "alt-text:plugin",
  autoStart: true,
  activate: (app) => {
    const describe = () => {
      for (const image of document.querySelectorAll(".jp-RenderedImage img:not([alt])")) {
        const text = alternative(app, image);
        if (text) image.alt = text;
      }
    };
    new MutationObserver(describe).observe(document.body, { childList: true, subtree: true });
    // JupyterLab leaves links within a notebook to the browser, which doesn't know its headings.
    const lead = async ({ target }) => {
      const link = target.closest?.('.jp-RenderedMarkdown a[href^="#"]');
      if (!link) return;
      // Twice: what has never been shown gets its height only when it is.
      const go = () => app.shell.currentWidget.content.setFragment(link.hash);
      for (const wait of [300, 1500]) setTimeout(go, wait);
    };
    document.addEventListener("click", lead, true);
  },
};

// What JupyterLab looks for in an extension: a container in the manner of webpack's module federation.
globalThis._JUPYTERLAB ??= {};
globalThis._JUPYTERLAB["alt-text"] = {
  init: () => {},
  get: async () => () => ({ __esModule: true, default: plugin }),
};
