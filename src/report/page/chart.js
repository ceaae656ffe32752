// Line and bar figures: Dygraph draws, everything around it (legend, read-out, keys) is ours.
"use strict";

const escapeHtml = (text) =>
  String(text).replace(/[&<>"']/g, (c) => `&#${c.charCodeAt(0)};`);

const isDark = () => {
  const chosen = document.documentElement.dataset.theme;
  if (chosen) return chosen === "dark";
  return window.matchMedia("(prefers-color-scheme: dark)").matches;
};

const cssColor = (name) =>
  getComputedStyle(document.documentElement).getPropertyValue(name).trim();

function make(tag, properties = {}, ...children) {
  const node = document.createElement(tag);
  Object.assign(node, properties);
  node.append(...children);
  return node;
}

// 12300 as "12,300", 0.001234 as "0.00123".
function formatNumber(value) {
  if (value === null || value === undefined || Number.isNaN(value)) return "–";
  if (Math.abs(value) >= 1e7) return value.toPrecision(3).replace(/\.?0*e\+/, "e");
  if (Number.isInteger(value) && Math.abs(value) >= 1000) return value.toLocaleString("en-US");
  return String(Number(value.toPrecision(3)));
}

const formatCount = (value) => {
  if (Math.abs(value) >= 1e6) return `${Number((value / 1e6).toPrecision(3))}M`;
  if (Math.abs(value) >= 1e3) return `${Number((value / 1e3).toPrecision(3))}k`;
  return formatNumber(value);
};

// Powers of ten on a log axis, and their multiples by 2 and 5 where these are few.
function logTicks(low, high) {
  const first = Math.floor(Math.log10(low));
  const last = Math.ceil(Math.log10(high));
  const every = Math.max(1, Math.ceil((last - first) / 8));
  const steps = last - first <= 2 ? [1, 2, 5] : [1];
  const ticks = [];
  for (let power = first; power <= last; power += every) {
    for (const step of steps) {
      const v = step * 10 ** power;
      if (v >= low && v <= high) ticks.push({ v, label: formatNumber(v) });
    }
  }
  return ticks.length >= 2 ? ticks : null;
}

// A short piece of the line, as the legend shows it.
function swatch(series) {
  const ns = "http://www.w3.org/2000/svg";
  const svg = document.createElementNS(ns, "svg");
  svg.setAttribute("width", "30");
  svg.setAttribute("height", "10");
  svg.setAttribute("aria-hidden", "true");
  const line = document.createElementNS(ns, "line");
  line.setAttribute("x2", "30");
  line.setAttribute("y1", "5");
  line.setAttribute("y2", "5");
  line.setAttribute("stroke-width", String(series.width));
  line.setAttribute("stroke-dasharray", series.dash.join(" "));
  svg.append(line);
  return svg;
}

class Chart {
  constructor(figure, data) {
    this.figure = figure;
    this.data = data;
    this.log = data.log;
    this.clipped = true; // to the range that the figure says, if it does
    this.visible = data.series.map(() => true);
    this.strong = null; // the highlighted series
    this.build();
    this.draw();
  }

  build() {
    const { data } = this;
    this.plot = make("div", { className: "plot", tabIndex: 0 });
    this.plot.setAttribute("role", "application");
    this.plot.setAttribute("aria-roledescription", "chart");
    this.plot.setAttribute("aria-label", `${data.caption} Arrow keys read the values, plus and minus zoom, Escape shows all.`);
    this.readout = make("div", { className: "readout" });
    this.readout.setAttribute("aria-live", "polite");
    const scale = make("button", { type: "button", textContent: "Log scale" });
    scale.setAttribute("aria-pressed", String(this.log));
    scale.className = "log";
    scale.addEventListener("click", () => {
      this.log = !this.log;
      scale.setAttribute("aria-pressed", String(this.log));
      this.graph.updateOptions({ logscale: this.log && this.visible.some(Boolean), valueRange: this.range() });
    });
    const whole = make("button", { type: "button", textContent: "Show all", className: "whole" });
    whole.addEventListener("click", () => this.reset());
    const none = make("button", { type: "button", textContent: "Hide all", className: "none" });
    none.addEventListener("click", () => this.showOnly([]));
    const tools = make("div", { className: "tools" });
    if (data.kind === "lines") tools.append(scale);
    if (this.leaves()) tools.append(this.clipButton());
    tools.append(whole, none);
    this.legend = make("ul", { className: "legend" });
    this.entries = data.series.map((series, i) => this.entry(series, i));
    this.figure.append(tools, this.plot, this.readout, this.legend);
    this.plot.addEventListener("keydown", (event) => this.key(event));
  }

  clipButton() {
    const button = make("button", { type: "button", textContent: "Clip", className: "clip" });
    button.setAttribute("aria-pressed", "true");
    button.addEventListener("click", () => {
      this.clipped = !this.clipped;
      button.setAttribute("aria-pressed", String(this.clipped));
      this.graph.updateOptions({ valueRange: this.range() });
    });
    return button;
  }

  // Whether a line or its band leaves the figure: only then can more of it be shown.
  leaves() {
    const { kind, series, yLow, yHigh } = this.data;
    const outside = (y) => y !== null && ((yLow !== null && y < yLow) || (yHigh !== null && y > yHigh));
    return kind === "lines" && series.some((one) => [one.y, one.low, one.high].some((values) => values?.some(outside)));
  }

  range() {
    if (!this.clipped) return null;
    const { yLow, yHigh } = this.data;
    const low = this.log && yLow <= 0 ? null : yLow; // zero has no logarithm
    return low !== null || yHigh !== null ? [low, yHigh] : null;
  }

  entry(series, i) {
    const box = make("input", { type: "checkbox", checked: true });
    const name = make("span", { textContent: series.name });
    const value = make("span", { className: "value" });
    const mark = swatch(series);
    const label = make("label", {}, box, mark, name, value);
    box.addEventListener("change", () => this.toggle(i, box.checked));
    label.addEventListener("mouseenter", () => this.highlight(i));
    label.addEventListener("mouseleave", () => this.highlight(null));
    box.addEventListener("focus", () => this.highlight(i));
    box.addEventListener("blur", () => this.highlight(null));
    this.legend.append(make("li", {}, label));
    return { box, name, value, mark };
  }

  toggle(i, on) {
    this.show(this.visible.map((now, k) => (k === i ? on : now)));
  }

  showOnly(indices) {
    this.show(this.visible.map((_, i) => indices.includes(i)));
  }

  show(visible) {
    this.visible = visible;
    this.entries.forEach(({ box, name }, i) => {
      box.checked = visible[i];
      name.classList.toggle("off", !visible[i]);
    });
    const any = visible.some(Boolean);
    if (!any) this.graph.updateOptions({ logscale: false }, true); // nothing has no logarithm
    this.graph.setVisibility(visible);
    if (any) this.graph.updateOptions({ logscale: this.log });
  }

  reset() {
    this.showOnly(this.data.series.map((_, i) => i));
    this.graph.updateOptions({ dateWindow: null, valueRange: this.range() });
  }

  highlight(i) {
    if (this.strong === i) return;
    this.strong = i;
    this.graph.updateOptions({ series: this.seriesOptions() });
  }

  colors() {
    return this.data.series.map((series) => (isDark() ? series.dark : series.color));
  }

  seriesOptions() {
    const options = {};
    const colors = this.colors();
    this.data.series.forEach((series, i) => {
      const faint = this.strong !== null && this.strong !== i;
      options[`s${i}`] = {
        color: faint ? `${colors[i]}40` : colors[i],
        strokeWidth: series.width + (this.strong === i ? 1.5 : 0),
        strokePattern: series.dash.length ? series.dash : null,
      };
    });
    return options;
  }

  // Dygraph's rows: x, then [low, y, high] of every series.
  rows() {
    const { x, series } = this.data;
    return x.map((at, i) => [
      at,
      ...series.map((one) => {
        const y = one.y[i];
        if (y === null || y === undefined) return this.bands() ? [null, null, null] : null;
        return this.bands() ? [one.low ? one.low[i] : y, y, one.high ? one.high[i] : y] : y;
      }),
    ]);
  }

  bands() {
    return this.data.kind === "lines" && this.data.series.some((one) => one.low);
  }

  draw() {
    const { data } = this;
    this.graph = new Dygraph(this.plot, this.rows(), {
      labels: ["x", ...data.series.map((_, i) => `s${i}`)],
      customBars: this.bands(),
      logscale: this.log,
      valueRange: this.range(),
      colors: this.colors(),
      series: this.seriesOptions(),
      fillAlpha: 0.14,
      legend: "never",
      xlabel: escapeHtml(data.xLabel),
      ylabel: escapeHtml(data.yLabel),
      labelsKMB: false,
      axisLineColor: cssColor("--line"),
      gridLineColor: cssColor("--line"),
      gridLineWidth: 0.5,
      highlightCircleSize: 4,
      xRangePad: 4,
      yRangePad: 6,
      axes: {
        x: { axisLabelFormatter: (value) => formatCount(value), drawGrid: false },
        y: {
          axisLabelFormatter: (value) => (data.yCounts ? formatCount(value) : formatNumber(value)),
          axisLabelWidth: 62,
          ticker: (low, high, ...rest) =>
            (this.log && low > 0 && logTicks(low, high)) || Dygraph.numericLinearTicks(low, high, ...rest),
        },
      },
      highlightCallback: (event, x, points, row) => this.read(row),
      unhighlightCallback: () => this.read(null),
      underlayCallback: (context, area, graph) => this.references(context, area, graph),
      ...this.more(),
    });
    this.repaintSwatches();
  }

  more() {
    return {};
  }

  references(context, area, graph) {
    for (const reference of this.data.references) {
      const y = graph.toDomYCoord(reference.y);
      if (!(y >= area.y && y <= area.y + area.h)) continue;
      context.save();
      context.strokeStyle = context.fillStyle = cssColor("--quiet");
      context.setLineDash([4, 4]);
      context.beginPath();
      context.moveTo(area.x, y);
      context.lineTo(area.x + area.w, y);
      context.stroke();
      context.font = "12px system-ui, sans-serif";
      context.textAlign = "right";
      const above = y - 5 > area.y + 12;
      context.fillText(reference.label, area.x + area.w - 6, above ? y - 5 : y + 14);
      context.restore();
    }
  }

  position(row) {
    return `${formatNumber(Math.round(this.data.x[row]))} ${this.data.xLabel}`;
  }

  read(row) {
    this.row = row;
    this.data.series.forEach((series, i) => {
      const y = row === null ? null : series.y[row];
      let text = "";
      if (row !== null && this.visible[i] && y !== null) {
        text = formatNumber(y);
        if (series.low && series.low[row] !== series.high[row]) {
          text += ` (${formatNumber(series.low[row])} to ${formatNumber(series.high[row])})`;
        }
        if (series.open && series.open[row]) text = `not solved in ${text}`;
      }
      this.entries[i].value.textContent = text;
    });
    this.readout.textContent = row === null ? "" : this.position(row);
  }

  key(event) {
    const last = this.data.x.length - 1;
    const jump = event.shiftKey ? 10 : 1;
    const row = this.row ?? -1;
    const moves = { ArrowRight: Math.min(last, row + jump), ArrowLeft: Math.max(0, row - jump), Home: 0, End: last };
    if (event.key in moves) {
      this.graph.setSelection(moves[event.key]);
      this.read(moves[event.key]);
    } else if (event.key === "+" || event.key === "-") {
      this.zoom(event.key === "+" ? 0.5 : 2);
    } else if (event.key === "Escape") {
      this.graph.clearSelection();
      this.reset();
      this.read(null);
    } else {
      return;
    }
    event.preventDefault();
  }

  zoom(factor) {
    const [low, high] = this.graph.xAxisRange();
    const [first, last] = this.graph.xAxisExtremes();
    const middle = this.row !== null && this.row !== undefined ? this.data.x[this.row] : (low + high) / 2;
    const half = ((high - low) * factor) / 2;
    this.graph.updateOptions({
      dateWindow: [Math.max(first, middle - half), Math.min(last, middle + half)],
    });
  }

  repaintSwatches() {
    const colors = this.colors();
    this.entries.forEach((entry, i) => entry.mark.firstChild.setAttribute("stroke", colors[i]));
  }

  restyle() {
    this.graph.updateOptions({
      colors: this.colors(),
      series: this.seriesOptions(),
      axisLineColor: cssColor("--line"),
      gridLineColor: cssColor("--line"),
    });
    this.repaintSwatches();
  }
}

// Groups of bars: x counts the groups, every series has one bar in each.
class Bars extends Chart {
  position(row) {
    return this.data.groups[row];
  }

  range() {
    return [0, 1.06 * Math.max(...this.data.series.flatMap((one) => [...one.y, ...one.high]))];
  }

  more() {
    return {
      highlightCircleSize: 0,
      xAxisHeight: 46,
      dateWindow: [-0.5, this.data.groups.length - 0.5],
      plotter: (event) => this.plotBars(event),
      axes: {
        x: {
          drawGrid: false,
          axisLabelWidth: 150,
          pixelsPerLabel: 60,
          ticker: () => this.data.groups.map((group, v) => ({ v, label: escapeHtml(group) })),
        },
        y: { axisLabelFormatter: formatCount, axisLabelWidth: 62 },
      },
    };
  }

  reset() {
    this.showOnly(this.data.series.map((_, i) => i));
    this.graph.updateOptions({ dateWindow: [-0.5, this.data.groups.length - 0.5] });
  }

  plotBars(event) {
    if (event.seriesIndex !== 0) return;
    const context = event.drawingContext;
    const graph = event.dygraph;
    const sets = event.allSeriesPoints;
    const room = (graph.toDomXCoord(1) - graph.toDomXCoord(0)) * 0.8;
    const width = room / Math.max(1, sets.length);
    const zero = graph.toDomYCoord(0);
    sets.forEach((points, place) => {
      for (const point of points) {
        if (Number.isNaN(point.canvasy) || point.yval === null) continue;
        const i = Number(point.name.slice(1));
        const left = point.canvasx - room / 2 + place * width + 1;
        this.bar(context, i, point.xval, left, width - 2, point.canvasy, zero, graph);
      }
    });
  }

  bar(context, i, group, left, width, top, zero, graph) {
    const series = this.data.series[i];
    const faint = this.strong !== null && this.strong !== i;
    context.save();
    context.globalAlpha = faint ? 0.3 : 1;
    context.fillStyle = context.strokeStyle = this.colors()[i];
    if (series.open[group]) {
      context.setLineDash([4, 3]);
      context.lineWidth = 1.5;
      context.strokeRect(left, top, width, zero - top);
      context.globalAlpha *= 0.25;
    }
    context.fillRect(left, top, width, zero - top);
    if (series.low[group] !== null) {
      context.globalAlpha = faint ? 0.3 : 1;
      context.strokeStyle = cssColor("--text");
      const middle = left + width / 2;
      context.beginPath();
      context.moveTo(middle, graph.toDomYCoord(series.low[group]));
      context.lineTo(middle, graph.toDomYCoord(series.high[group]));
      context.stroke();
    }
    context.restore();
  }
}
