"use strict";
(() => {
  const SVG = "http://www.w3.org/2000/svg";
  const DASHES = ["", "7 4", "9 3 2 3", "2 3", "9 3 2 3 2 3", "1 5"];
  const HEIGHT = 320, LEFT = 58, RIGHT = 14, TOP = 12, BOTTOM = 46;

  function element(parent, name, attributes, text) {
    const made = document.createElementNS(SVG, name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    if (text !== undefined) made.textContent = text;
    parent.appendChild(made);
    return made;
  }

  function axes(svg, width, x, y, part, data) {
    for (const share of [0, 0.25, 0.5, 0.75, 1]) {
      const lines = { class: "grid", x1: x(0), x2: x(1), y1: y(share), y2: y(share) };
      element(svg, "line", lines);
      element(svg, "text", { x: LEFT - 8, y: y(share) + 4, "text-anchor": "end" }, String(share));
      const below = { x: x(share), y: HEIGHT - BOTTOM + 18, "text-anchor": "middle" };
      element(svg, "text", below, String(share));
    }
    const middle = { x: (x(0) + x(1)) / 2, y: HEIGHT - 8, "text-anchor": "middle" };
    element(svg, "text", middle, part.across);
    const turn = `translate(14 ${(y(0) + y(1)) / 2}) rotate(-90)`;
    element(svg, "text", { transform: turn, "text-anchor": "middle" }, data.up);
  }

  function draw(stage, data, slice, place) {
    const part = data.slices[slice];
    const width = Math.max(280, Math.round(stage.clientWidth));
    const x = (share) => LEFT + share * (width - LEFT - RIGHT);
    const y = (share) => HEIGHT - BOTTOM - share * (HEIGHT - TOP - BOTTOM);
    const svg = document.createElementNS(SVG, "svg");
    svg.setAttribute("viewBox", `0 0 ${width} ${HEIGHT}`);
    svg.setAttribute("aria-hidden", "true");
    axes(svg, width, x, y, part, data);
    part.values[place].forEach((values, k) => {
      const points = values.map((v, i) => `${x(data.points[i]).toFixed(1)},${y(v).toFixed(1)}`);
      element(svg, "polyline", {
        class: "series",
        points: points.join(" "),
        stroke: data.colours[k],
        "stroke-dasharray": DASHES[k % DASHES.length],
      });
    });
    stage.replaceChildren(svg);
  }

  function keys(list, data) {
    data.lines.forEach((name, k) => {
      const item = document.createElement("li");
      const svg = element(item, "svg", { viewBox: "0 0 28 8", width: 28, height: 8 });
      svg.setAttribute("aria-hidden", "true");
      element(svg, "line", {
        class: "series", x1: 0, x2: 28, y1: 4, y2: 4,
        stroke: data.colours[k], "stroke-dasharray": DASHES[k % DASHES.length],
      });
      item.appendChild(document.createTextNode(name));
      list.appendChild(item);
    });
  }

  for (const figure of document.querySelectorAll(".explorer")) {
    const data = JSON.parse(figure.querySelector("script").textContent);
    const stage = figure.querySelector(".stage");
    const slider = figure.querySelector("input");
    const told = figure.querySelector("output");
    const select = figure.querySelector("select");
    const show = () => {
      const place = Number(slider.value);
      told.textContent = data.places[place];
      slider.setAttribute("aria-valuetext", data.places[place]);
      draw(stage, data, select ? Number(select.value) : 0, place);
    };
    figure.querySelector(".controls").hidden = false;
    keys(figure.querySelector(".keys"), data);
    slider.addEventListener("input", show);
    if (select) select.addEventListener("change", show);
    window.addEventListener("resize", show);
    show();
  }
})();
