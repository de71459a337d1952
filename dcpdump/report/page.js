(() => {
  "use strict";
  const data = JSON.parse(document.getElementById("data").textContent);
  const plots = [...document.querySelectorAll("svg[data-zoom]")];
  const span = data.last - data.first;
  const tip = document.body.appendChild(document.createElement("div"));
  tip.className = "tip";
  tip.hidden = true;
  let from = 0, to = 1;

  const pad = (number, digits) => String(number).padStart(digits, "0");
  const clock = (place) => {
    const ms = data.first + place * span, seen = (to - from) * span;
    const at = new Date(ms + data.ahead.filter(([since]) => since <= ms || since === data.first).pop()[1]);
    const time = [at.getUTCHours(), at.getUTCMinutes(), at.getUTCSeconds()].map((n) => pad(n, 2)).join(":");
    const day = span > 864e5 ? `${pad(at.getUTCMonth() + 1, 2)}-${pad(at.getUTCDate(), 2)} ` : "";
    return day + (seen < 10000 ? `${time}.${pad(at.getUTCMilliseconds(), 3)}` : time);
  };
  const lasting = (seconds) =>
    seconds < 1 ? `${(seconds * 1000).toPrecision(3)} ms` : seconds < 180 ? `${seconds.toPrecision(3)} s`
      : seconds < 10800 ? `${(seconds / 60).toPrecision(3)} m` : `${(seconds / 3600).toPrecision(3)} h`;

  // -- the time that all pictures show
  const axes = [...document.querySelectorAll("svg.axis")].map((axis) => [axis, axis.innerHTML]);
  const show = (begin, end) => {
    from = Math.max(0, Math.min(begin, 0.999));
    to = Math.min(1, Math.max(end, from + 1e-5));
    for (const plot of plots) {
      const box = plot.viewBox.baseVal;
      plot.setAttribute("viewBox", `${from * 1000} 0 ${(to - from) * 1000} ${box.height}`);
    }
    for (const mark of document.querySelectorAll("svg[data-at]")) {
      const place = (Number(mark.dataset.at) - from) / (to - from);
      mark.setAttribute("x", `${place * 100}%`);
      mark.toggleAttribute("hidden", place < 0 || place > 1);
    }
    for (const [axis, whole] of axes) {
      if (from === 0 && to === 1) axis.innerHTML = whole;
      else {
        const labels = axis.querySelectorAll("svg");
        labels.forEach((label, at) => {
          const place = at / Math.max(1, labels.length - 1);
          label.setAttribute("x", `${place * 100}%`);
          label.querySelector("text").textContent = clock(from + place * (to - from));
        });
      }
    }
  };
  const zoom = (factor, middle = (from + to) / 2) => {
    const wide = Math.min(1, (to - from) * factor), begin = middle - (middle - from) / (to - from) * wide;
    const low = Math.max(0, Math.min(begin, 1 - wide));
    show(low, low + wide);
  };
  const shift = (part) => {
    const wide = to - from, low = Math.max(0, Math.min(from + part * wide, 1 - wide));
    show(low, low + wide);
  };

  // -- reading pictures off
  const cells = new WeakMap();
  const picture = (plot) => {
    if (cells.has(plot)) return cells.get(plot);
    const image = new Image(), known = {};
    cells.set(plot, known);
    image.onload = () => {
      const canvas = document.createElement("canvas");
      canvas.width = image.width;
      canvas.height = image.height;
      const drawing = canvas.getContext("2d");
      drawing.drawImage(image, 0, 0);
      known.pixels = drawing.getImageData(0, 0, image.width, image.height);
    };
    image.src = plot.querySelector("image").getAttribute("href");
    return known;
  };
  const figures = [...document.querySelectorAll("figure")];
  const ofMap = (plot, place, height) => {
    const map = data.maps[figures.indexOf(plot.closest("figure"))], known = picture(plot).pixels;
    const vbucket = map.vbuckets[Math.min(map.vbuckets.length - 1, Math.floor(height * map.vbuckets.length))];
    let said = `vb ${vbucket} · ${clock(place)}`;
    if (known && plot.dataset.map === "silence") {
      const x = Math.min(known.width - 1, Math.floor(place * known.width));
      const y = Math.min(known.height - 1, Math.floor(height * known.height));
      const [red, , , alpha] = known.data.slice(4 * (y * known.width + x), 4 * (y * known.width + x) + 4);
      const level = Math.round(12 * Math.pow(Math.max(0, alpha - 18) / 237, 1 / 1.4));
      said += alpha === 0 ? " · not granted" : red > 100 ? " · ended"
        : level === 0 ? ` · silent for less than ${lasting(map.limits[1])}` : ` · silent for ${lasting(map.limits[level])} or more`;
    }
    return said;
  };
  const ofLane = (plot, place) => {
    const lane = plot.closest("[id]"), values = lane && data.lanes[lane.id];
    if (!values) return clock(place);
    const value = values[Math.min(values.length - 1, Math.floor(place * values.length))];
    const rate = lane.id.startsWith("timeline") ? `${Math.round(value / data.step * 1000).toLocaleString("en")} B/s` : `${value.toLocaleString("en")} B outstanding`;
    return `${clock(place)} · ${rate}`;
  };
  const say = (event, text) => {
    tip.hidden = !text;
    if (!text) return;
    tip.textContent = text;
    const wide = tip.offsetWidth;
    tip.style.left = `${Math.min(event.clientX + 12, innerWidth - wide - 8)}px`;
    tip.style.top = `${event.clientY + 14}px`;
  };
  for (const plot of plots) {
    let begun = null, shade = null;
    const place = (event) => {
      const box = plot.getBoundingClientRect();
      return from + Math.max(0, Math.min(1, (event.clientX - box.left) / box.width)) * (to - from);
    };
    const move = (event) => {
      const box = plot.getBoundingClientRect(), at = place(event);
      if (begun !== null) {
        shade.setAttribute("x", Math.min(begun, at) * 1000);
        shade.setAttribute("width", Math.abs(at - begun) * 1000);
      }
      const title = event.target.closest ? event.target.querySelector("title") : null;
      const height = Math.max(0, Math.min(0.9999, (event.clientY - box.top) / box.height));
      say(event, title ? title.textContent : plot.dataset.map ? ofMap(plot, at, height) : ofLane(plot, at));
    };
    plot.addEventListener("pointermove", move);
    plot.addEventListener("pointerleave", () => { tip.hidden = true; });
    plot.addEventListener("pointerdown", (event) => {
      if (event.button || event.pointerType === "touch") return;
      begun = place(event);
      shade = plot.appendChild(document.createElementNS("http://www.w3.org/2000/svg", "rect"));
      shade.setAttribute("class", "pick");
      shade.setAttribute("height", plot.viewBox.baseVal.height);
      plot.setPointerCapture(event.pointerId);
    });
    plot.addEventListener("pointerup", (event) => {
      if (begun === null) return;
      const end = place(event), low = Math.min(begun, end), high = Math.max(begun, end);
      shade.remove();
      begun = null;
      if ((high - low) / (to - from) > 0.005) show(low, high);
    });
    plot.addEventListener("dblclick", () => show(0, 1));
    plot.addEventListener("keydown", (event) => {
      const does = { ArrowLeft: () => shift(-0.25), ArrowRight: () => shift(0.25), "+": () => zoom(0.5), "-": () => zoom(2), Escape: () => show(0, 1) }[event.key];
      if (does) {
        does();
        event.preventDefault();
      }
    });
    if (plot.dataset.map) plot.addEventListener("pointerenter", () => picture(plot), { once: true });
  }
  const tools = {
    in: () => zoom(0.5), out: () => zoom(2), whole: () => show(0, 1),
    theme: () => {
      const root = document.documentElement, dark = matchMedia("(prefers-color-scheme: dark)").matches;
      root.dataset.theme = (root.dataset.theme || (dark ? "dark" : "light")) === "dark" ? "light" : "dark";
    },
  };
  for (const button of document.querySelectorAll("[data-do]")) button.addEventListener("click", tools[button.dataset.do]);

  // -- tables
  for (const input of document.querySelectorAll("[data-filter]")) {
    const rows = [...document.getElementById(input.dataset.filter).rows];
    const count = input.closest("p").querySelector("[data-count]");
    input.addEventListener("input", () => {
      const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
      let shown = 0;
      for (const row of rows) {
        const text = row.textContent.toLowerCase();
        row.hidden = !words.every((word) => text.includes(word));
        shown += !row.hidden;
      }
      count.textContent = `${shown.toLocaleString("en")} of ${rows.length.toLocaleString("en")} streams`;
    });
  }
  for (const head of document.querySelectorAll("table.sortable th")) {
    head.querySelector("button").addEventListener("click", () => {
      const table = head.closest("table"), body = table.tBodies[0], at = head.cellIndex;
      const up = head.getAttribute("aria-sort") !== "ascending";
      for (const other of table.tHead.rows[0].cells) other.setAttribute("aria-sort", "none");
      head.setAttribute("aria-sort", up ? "ascending" : "descending");
      const key = (row) => row.cells[at].textContent;
      const number = (row) => {
        const value = parseFloat(key(row).replace(/[≥,\s]/g, ""));
        return isNaN(value) ? -1 : value;
      };
      const numeric = head.classList.contains("num");
      const compare = (one, other) => numeric ? number(one) - number(other) : key(one).localeCompare(key(other));
      body.append(...[...body.rows].sort((one, other) => (up ? 1 : -1) * compare(one, other)));
    });
  }

  // -- frames: a field and its bytes light up together
  for (const frame of document.querySelectorAll(".frame")) {
    const light = (event) => {
      const on = event.target.closest("[data-field]");
      for (const each of frame.querySelectorAll("[data-field]")) each.classList.toggle("lit", on !== null && each.dataset.field === on.dataset.field);
    };
    for (const kind of ["pointerover", "focusin", "pointerleave"]) frame.addEventListener(kind, light);
  }
  const open = () => {
    const target = location.hash.length > 1 && document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (target && target.tagName === "DETAILS") {
      target.open = true;
      target.scrollIntoView();
    }
  };
  addEventListener("hashchange", open);
  open();
})();
