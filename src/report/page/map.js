// The memory of one sequence: a field of steps and units, a slider through the steps, and the memory
// at the chosen step as a profile.

const kScale = [
  [5, 48, 97],
  [67, 147, 195],
  [247, 247, 247],
  [214, 96, 77],
  [103, 0, 31],
];

// part: -1 to 1.
function scaleColor(part) {
  const at = ((Math.max(-1, Math.min(1, part)) + 1) / 2) * (kScale.length - 1);
  const low = Math.min(Math.floor(at), kScale.length - 2);
  return kScale[low].map((c, i) => Math.round(c + (kScale[low + 1][i] - c) * (at - low)));
}

class MemoryView {
  constructor(figure, data) {
    this.figure = figure;
    this.data = data;
    this.shown = "changes";
    this.build();
    this.draw();
    this.select(0);
  }

  build() {
    const { data } = this;
    this.buttons = [["changes", "Change m_t − m_(t−1)"], ["values", "Memory m_t"]].map(([kind, text]) => {
      const button = make("button", { type: "button", textContent: text });
      button.dataset.kind = kind;
      button.addEventListener("click", () => this.show(kind));
      return button;
    });
    this.field = make("canvas", { className: "field", width: data.steps, height: data.units });
    this.field.setAttribute("role", "img");
    this.field.setAttribute("aria-label", `${data.label}: ${data.units} memory units over ${data.steps} steps`);
    this.slider = make("input", { type: "range", min: 0, max: data.steps - 1, value: 0 });
    this.slider.setAttribute("aria-label", "Step of the sequence");
    this.profile = make("canvas", { className: "profile", width: 900, height: 220 });
    this.profile.setAttribute("role", "img");
    this.profile.setAttribute("aria-label", "The memory units at the chosen step");
    this.readout = make("div", { className: "readout" });
    this.readout.setAttribute("aria-live", "polite");
    this.limitText = make("span");
    const scale = make("div", { className: "scale" }, make("span", { textContent: "−" }),
      make("span", { className: "colors" }), make("span", { textContent: "+" }), this.limitText);
    this.slider.addEventListener("input", () => this.select(Number(this.slider.value)));
    this.field.addEventListener("pointermove", (event) => this.point(event));
    this.field.addEventListener("pointerdown", (event) => this.point(event));
    this.figure.append(make("div", { className: "tools" }, ...this.buttons), this.field, this.slider,
      this.readout, this.profile, scale);
  }

  point(event) {
    const box = this.field.getBoundingClientRect();
    const step = Math.floor(((event.clientX - box.left) / box.width) * this.data.steps);
    this.select(Math.max(0, Math.min(this.data.steps - 1, step)));
  }

  show(kind) {
    this.shown = kind;
    this.draw();
    this.select(this.step);
  }

  at(step, unit) {
    return this.data[this.shown][step * this.data.units + unit];
  }

  limit() {
    let largest = 0;
    for (const value of this.data[this.shown]) {
      if (value !== null) largest = Math.max(largest, Math.abs(value));
    }
    return largest || 1;
  }

  draw() {
    const { steps, units } = this.data;
    const limit = this.limit();
    const context = this.field.getContext("2d");
    const image = context.createImageData(steps, units);
    for (let unit = 0; unit < units; ++unit) {
      for (let step = 0; step < steps; ++step) {
        const value = this.at(step, units - 1 - unit);
        const color = value === null ? [128, 128, 128] : scaleColor(value / limit);
        image.data.set([...color, 255], (unit * steps + step) * 4);
      }
    }
    this.image = image;
    this.limitText.textContent = `±${formatNumber(limit)}`;
    for (const button of this.buttons) {
      button.setAttribute("aria-pressed", String(button.dataset.kind === this.shown));
    }
  }

  select(step) {
    this.step = step;
    this.slider.value = String(step);
    const context = this.field.getContext("2d");
    context.putImageData(this.image, 0, 0);
    context.fillStyle = "rgba(0, 0, 0, 0.55)";
    context.fillRect(step, 0, 0.35, this.data.units);
    this.drawProfile();
    this.readout.textContent = this.words();
    this.slider.setAttribute("aria-valuetext", this.words());
  }

  words() {
    const { data, step } = this;
    let squares = 0;
    for (let unit = 0; unit < data.units; ++unit) squares += (this.at(step, unit) ?? 0) ** 2;
    const stretch = data.stretches.find((one) => step >= one.first && step <= one.last);
    const parts = [`step ${step}`];
    if (stretch) parts.push(stretch.name);
    if (data.input.length) parts.push(`input ${data.input[step]}`);
    parts.push(`norm ${formatNumber(Math.sqrt(squares))}`);
    return parts.join(", ");
  }

  drawProfile() {
    const { units } = this.data;
    const context = this.profile.getContext("2d");
    const { width, height } = this.profile;
    const limit = this.limit();
    context.clearRect(0, 0, width, height);
    context.strokeStyle = cssColor("--line");
    context.beginPath();
    context.moveTo(0, height / 2);
    context.lineTo(width, height / 2);
    context.stroke();
    for (let unit = 0; unit < units; ++unit) {
      const value = this.at(this.step, unit) ?? 0;
      const tall = (value / limit) * (height / 2 - 4);
      context.fillStyle = value < 0 ? "#4393c3" : "#d6604d";
      context.fillRect((unit * width) / units + 1, height / 2 - Math.max(tall, 0), width / units - 2, Math.abs(tall));
    }
  }

  restyle() {
    this.drawProfile();
  }
}
