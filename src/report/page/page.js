// Brings the page to life: a chart for every figure, the choice of light and dark.

const views = [];

function start() {
  const data = JSON.parse(document.getElementById("data").textContent);
  for (const figure of document.querySelectorAll("figure[data-map]")) {
    views.push(new MemoryView(figure, data.maps[figure.dataset.map]));
  }
  if (typeof Dygraph === "undefined") return; // the figures are pictures then
  for (const figure of document.querySelectorAll("figure[data-figure]")) {
    const one = data.figures[figure.dataset.figure];
    if (!one) continue;
    views.push(one.kind === "bars" ? new Bars(figure, one) : new Chart(figure, one));
  }
}

function restyle() {
  document.getElementById("theme").textContent = isDark() ? "Light" : "Dark";
  for (const view of views) view.restyle();
}

function setUpTheme() {
  const button = document.getElementById("theme");
  button.hidden = false;
  button.addEventListener("click", () => {
    document.documentElement.dataset.theme = isDark() ? "light" : "dark";
    restyle();
  });
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", restyle);
  restyle();
}

// On a phone the list of experiments would push the results off the screen.
if (window.matchMedia("(max-width: 60rem)").matches) {
  document.querySelector("nav details").open = false;
}
start();
setUpTheme();
