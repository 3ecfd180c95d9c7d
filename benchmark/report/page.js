"use strict";
// The page works from one JSON document: runs as rows of indexes into `names`, details by the same position.
const data = JSON.parse(document.getElementById("data").textContent);
const place = Object.fromEntries(data.columns.map((name, i) => [name, i]));
const textColumns = new Set(data.text);
const byId = new Map(data.runs.map((run, i) => [run[0], i]));
const value = (i, column) => {
  const raw = data.runs[i][place[column]];
  return textColumns.has(column) ? data.names[column][raw] : raw;
};
const escapeText = (text) => String(text ?? "").replace(/[&<>"']/g, (c) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#39;" })[c]);
const rowName = (i) => value(i, "method") + (value(i, "preset") ? ":" + value(i, "preset") : "");
// Tables show the target's batch-norm statistics where a run was scored with them: so do the curves behind their cells.
const shownCurve = (c) => c.target.target ?? c.target.running;
const percent = (x) => (x === null || x === undefined ? "–" : x.toFixed(2));

// -- theme -------------------------------------------------------------------------------------------------------
const root = document.documentElement;
const dark = () => (root.dataset.theme || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")) === "dark";
const themeName = () => { document.getElementById("theme-name").textContent = dark() ? "Dark" : "Light"; };
document.getElementById("theme").addEventListener("click", () => {
  root.dataset.theme = dark() ? "light" : "dark";
  try { localStorage.setItem("theme", root.dataset.theme); } catch (e) { /* no storage from disk: the choice lasts until the page closes */ }
  themeName();
});
themeName();

// -- line charts ---------------------------------------------------------------------------------------------------
function lines(series, { width = 340, height = 190, label = "", unit = "" } = {}) {
  const points = series.flatMap((s) => s.x.map((x, i) => [x, s.y[i]])).filter((p) => p[1] !== null && p[1] !== undefined);
  if (!points.length) return "<p>No curve.</p>";
  const xs = points.map((p) => p[0]), ys = points.map((p) => p[1]);
  const x0 = Math.min(...xs), x1 = Math.max(...xs), pad = (Math.max(...ys) - Math.min(...ys) || 1) * 0.08;
  const y0 = Math.min(...ys) - pad, y1 = Math.max(...ys) + pad, left = 44, right = width - 8, top = series.some((s) => s.name) ? 24 : 8, bottom = height - 24;
  const X = (x) => left + ((right - left) * (x - x0)) / (x1 - x0 || 1), Y = (y) => bottom - ((bottom - top) * (y - y0)) / (y1 - y0);
  let body = "";
  for (let k = 0; k < 4; k++) {
    const y = y0 + pad + ((y1 - y0 - 2 * pad) * k) / 3;
    body += `<line class="grid" x1="${left}" x2="${right}" y1="${Y(y)}" y2="${Y(y)}"/><text class="tick" x="${left - 5}" y="${Y(y) + 4}" text-anchor="end">${y.toPrecision(3)}</text>`;
  }
  body += `<text class="tick" x="${left}" y="${height - 7}">${x0}</text><text class="tick" x="${right}" y="${height - 7}" text-anchor="end">${x1} updates</text>`;
  for (const s of series) {
    const path = s.x.map((x, i) => (s.y[i] === null || s.y[i] === undefined ? "" : `${X(x).toFixed(1)},${Y(s.y[i]).toFixed(1)}`)).filter(Boolean).join("L");
    body += `<path class="${s.shade} ${s.mean ? "mean" : ""}" d="M${path}"${s.faint ? ' opacity=".45"' : ""}/>`;
  }
  let at = left; // names in a line above the plot, each in the colour of its line
  for (const s of series.filter((s) => s.name)) {
    body += `<text class="${s.shade}" x="${at}" y="14">— ${escapeText(s.name)}</text>`;
    at += 34 + 6.5 * s.name.length;
  }
  return `<svg class="lines" viewBox="0 0 ${width} ${height}" role="img" aria-label="${escapeText(label)}${unit}">${body}</svg>`;
}

function meanCurve(curves) {
  const n = Math.min(...curves.map((c) => c.update.length));
  const y = Array.from({ length: n }, (_, k) => curves.reduce((sum, c) => sum + shownCurve(c)[k], 0) / curves.length);
  return { x: curves[0].update.slice(0, n), y };
}

// -- tables that sort and filter -----------------------------------------------------------------------------------
const order = (cell) => (cell.dataset.value !== undefined ? Number(cell.dataset.value) : cell.textContent.trim());
function compare(a, b, up) {
  if (typeof a !== typeof b) return typeof a === "number" ? -1 : 1; // without a number: always last
  return (up ? -1 : 1) * (typeof a === "number" ? b - a : b.localeCompare(a, "en", { numeric: true }));
}
function sortable(table) {
  table.querySelectorAll("thead th").forEach((head, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.className = "sort";
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => {
      const up = head.getAttribute("aria-sort") === "descending";
      table.querySelectorAll("thead th").forEach((h) => h.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", up ? "ascending" : "descending");
      for (const body of table.tBodies) { // within its block: blocks are never mixed
        const rows = [...body.rows].filter((r) => !r.classList.contains("block"));
        rows.sort((r, s) => compare(order(r.cells[column]), order(s.cells[column]), up));
        body.append(...rows);
      }
    });
  });
}
function filterable(figure) {
  const input = document.createElement("input");
  input.type = "search";
  input.className = "filter";
  input.placeholder = "Filter rows…";
  input.setAttribute("aria-label", "Filter the rows of this table");
  figure.querySelector(".sheet").before(input);
  input.addEventListener("input", () => {
    const wanted = input.value.toLowerCase().split(/\s+/).filter(Boolean);
    for (const row of figure.querySelectorAll("tbody tr:not(.block)")) {
      const text = row.textContent.toLowerCase();
      row.hidden = !wanted.every((word) => text.includes(word));
    }
    for (const body of figure.querySelectorAll("tbody")) { // a block without rows hides its heading
      const block = body.querySelector("tr.block");
      if (block) block.hidden = ![...body.rows].some((r) => r !== block && !r.hidden);
    }
  });
}
for (const figure of document.querySelectorAll("figure.table")) {
  sortable(figure.querySelector("table"));
  if (figure.querySelectorAll("tbody tr").length > 4) filterable(figure);
}

// -- learning curves on pointing, by mouse or keyboard -------------------------------------------------------------
const tip = document.getElementById("tip");
const runsOf = (cell) => cell.dataset.runs.split(" ").map((id) => byId.get(id)).filter((i) => i !== undefined);
function showTip(cell) {
  const found = runsOf(cell);
  const curves = found.map((i) => data.details[i].curve).filter((c) => c.update);
  if (!curves.length) return;
  const series = curves.slice(0, 40).map((c) => ({ x: c.update, y: shownCurve(c), shade: "b3", faint: true }));
  series.push({ ...meanCurve(curves), shade: "b2", mean: true });
  const first = found[0];
  tip.innerHTML = `<p><strong>${escapeText(rowName(first))}</strong> → ${escapeText(value(first, "target"))}, ${found.length} run${found.length > 1 ? "s" : ""}${cell.title ? ", " + escapeText(cell.title) : ""}</p>` +
    lines(series, { label: "Target accuracy during training" }) + `<p>Target accuracy in %${curves[0].target.target ? ", batch-norm statistics of the target" : ""}: each seed thin, mean thick. Enter or click: the runs.</p>`;
  tip.hidden = false;
  const box = cell.getBoundingClientRect(), size = tip.getBoundingClientRect();
  tip.style.left = Math.max(8, Math.min(box.left, innerWidth - size.width - 8)) + "px";
  tip.style.top = (box.bottom + size.height + 8 < innerHeight ? box.bottom + 6 : Math.max(8, box.top - size.height - 6)) + "px";
}
const hideTip = () => { tip.hidden = true; };
for (const table of document.querySelectorAll("figure.table table")) {
  const cells = [...table.querySelectorAll("[data-runs]")];
  if (!cells.length) continue;
  cells.forEach((cell, k) => { cell.tabIndex = k ? -1 : 0; }); // one stop for Tab, arrows inside
  table.addEventListener("mouseover", (e) => { const c = e.target.closest("[data-runs]"); if (c) showTip(c); else hideTip(); });
  table.addEventListener("mouseleave", hideTip);
  table.addEventListener("focusin", (e) => { if (e.target.matches("[data-runs]:focus-visible")) showTip(e.target); });
  table.addEventListener("focusout", hideTip);
  table.addEventListener("click", (e) => { const c = e.target.closest("[data-runs]"); if (c) { hideTip(); openRun(runsOf(c), 0); } });
  table.addEventListener("keydown", (e) => {
    const cell = e.target.closest("[data-runs]");
    if (!cell) return;
    if (e.key === "Enter") { e.preventDefault(); hideTip(); openRun(runsOf(cell), 0); }
    if (e.key === "Escape") hideTip();
    const step = { ArrowRight: [0, 1], ArrowLeft: [0, -1], ArrowDown: [1, 0], ArrowUp: [-1, 0] }[e.key];
    if (!step) return;
    e.preventDefault();
    const rows = [...table.querySelectorAll("tbody tr:not(.block)")].filter((r) => !r.hidden);
    const next = rows[rows.indexOf(cell.parentNode) + step[0]]?.cells[cell.cellIndex + step[1]];
    if (next?.dataset.runs) { cell.tabIndex = -1; next.tabIndex = 0; next.focus(); showTip(next); }
  });
}

// -- one run --------------------------------------------------------------------------------------------------------
const dialog = document.getElementById("run");
const pairs = (title, object) => {
  const rows = Object.entries(object || {}).filter(([, v]) => v !== null && v !== "");
  if (!rows.length) return "";
  const show = (v) => (typeof v === "object" ? JSON.stringify(v) : v);
  return `<section><h3>${title}</h3><table class="pairs"><tbody>${rows.map(([k, v]) => `<tr><th scope="row">${escapeText(k)}</th><td>${escapeText(show(v))}</td></tr>`).join("")}</tbody></table></section>`;
};
const rules = ["last", "source_val", "unsup", "snd", "bnm", "dev", "oracle"];
function byRule(i) { // under the statistics that the loop leaves behind, and under the target's where the run has them
  const twice = value(i, "target_last") !== null;
  const row = (rule) => `<tr><th scope="row">${rule.replace("_", "-")}</th><td>${percent(value(i, rule))}</td>${twice ? `<td>${percent(value(i, "target_" + rule))}</td>` : ""}</tr>`;
  const head = twice ? '<thead><tr><th scope="col">Batch-norm statistics</th><th scope="col">running</th><th scope="col">target</th></tr></thead>' : "";
  const share = value(i, "target_share") === null ? "" : `<p>The target’s share in the running statistics: ${value(i, "target_share")}.</p>`;
  const known = rules.filter((rule) => value(i, rule) !== null || rule === "last");
  return `<section><h3>Result by selection rule</h3><table class="pairs">${head}<tbody>${known.map(row).join("")}</tbody></table>${share}</section>`;
}
function openRun(list, k) {
  const i = list[k];
  if (i === undefined) return;
  const d = data.details[i], shared = (key) => (d[key] === undefined ? null : data.shared[d[key]]);
  document.getElementById("run-h").textContent = `${rowName(i)} → ${value(i, "target")}, seed ${value(i, "seed")}`;
  const steps = dialog.querySelector(".run-steps");
  steps.innerHTML = list.length > 1 ? `<button type="button" data-step="-1" ${k ? "" : "disabled"}>‹</button> run ${k + 1} of ${list.length} <button type="button" data-step="1" ${k < list.length - 1 ? "" : "disabled"}>›</button>` : "";
  steps.querySelectorAll("button").forEach((b) => b.addEventListener("click", () => openRun(list, k + Number(b.dataset.step))));
  const accuracies = d.curve.update ? [{ y: d.curve.target.running, shade: "b2", mean: true, name: "target" }, { y: d.curve.target.target ?? [], shade: "b1", mean: true, name: "target, own statistics" }, { y: d.curve.source_val, shade: "b0", name: "held-out sources" }] : [];
  const curve = d.curve.update ? lines(accuracies.filter((s) => s.y.length).map((s) => ({ ...s, x: d.curve.update })),
    { width: 520, height: 240, label: "Accuracy during training" }) : "<p>No curve.</p>";
  const losses = Object.entries(d.curve.losses || {}).slice(0, 4).map(([name, y], n) => ({ x: d.curve.update, y, name, shade: "b" + (n % 4) }));
  const classes = shared("classes") || [];
  const classesOf = d.per_class?.target ? "target" : "running";
  const bars = (d.per_class?.[classesOf] || []).slice(0, 40).map((v, c) => `<div><span>${escapeText(classes[c] ?? c)}</span><span class="bar" style="width:${v ?? 0}%"></span><span>${v ?? "–"}</span></div>`).join("");
  document.getElementById("run-body").innerHTML =
    (d.reason ? `<p class="chip bad" style="white-space:normal">${escapeText(d.reason)}</p>` : "") +
    (shared("warnings") || []).map((w) => `<p><span class="chip idle" style="white-space:normal">${escapeText(w)}</span></p>`).join("") +
    `<div class="columns"><section><h3>Accuracy in %</h3>${curve}</section>${losses.length ? `<section><h3>Losses</h3>${lines(losses, { width: 520, height: 240, label: "Losses during training" })}</section>` : ""}</div><div class="columns">` +
    byRule(i) +
    pairs("Run", { "run id": value(i, "run_id"), suite: value(i, "suite"), tier: value(i, "tier"), standard: value(i, "standard"), sources: value(i, "sources"), split: value(i, "split"), status: value(i, "status"), data: value(i, "data_fingerprint") }) +
    (bars ? `<section class="bars"><h3>By class, %${classesOf === "target" ? ", target’s statistics" : ""}</h3>${bars}</section>` : "") +
    pairs("Cost", { seconds: value(i, "seconds"), "CPU seconds": value(i, "cpu_seconds"), "images/s": value(i, "images_per_s"), passes: value(i, "passes"), "peak MB": value(i, "peak_memory_mb") }) +
    pairs("Diagnostics", d.diagnostics) + pairs("Probes", d.probes) + pairs("Pseudo labels", d.pseudo) + pairs("Changed by hand", shared("overrides")) +
    pairs("Hyper-parameters", shared("hparams")) + pairs("Settings", shared("settings")) + pairs("Provenance", { ...shared("origin"), started: d.times?.[0], finished: d.times?.[1] }) + "</div>";
  if (!dialog.open) dialog.showModal();
  dialog.scrollTop = 0;
  document.getElementById("run-h").focus();
  history.replaceState(null, "", "#run=" + value(i, "run_id"));
}
document.getElementById("close").addEventListener("click", () => dialog.close());
dialog.addEventListener("click", (e) => { if (e.target === dialog) dialog.close(); });
dialog.addEventListener("close", () => history.replaceState(null, "", "#runs"));

// -- the list of runs ------------------------------------------------------------------------------------------------
const PAGE = 50;
const shown = [["run_id", "Run"], ["suite", "Suite"], ["tier", "Tier"], ["row", "Method"], ["standard", "Standard"], ["target", "Target"], ["split", "Split"], ["seed", "Seed"], ["status", "Status"], ["last", "Last"], ["target_last", "Last, target’s statistics"], ["oracle", "Oracle"], ["seconds", "Seconds"]];
const numeric = new Set(["seed", "last", "target_last", "oracle", "seconds"]);
const get = (i, key) => (key === "row" ? rowName(i) : value(i, key));
const state = { page: 0, key: "", up: false, filters: {}, words: [] };
const form = document.getElementById("filters");
for (const [key, name] of [["suite", "Suite"], ["tier", "Tier"], ["row", "Method"], ["standard", "Standard"], ["target", "Target"], ["status", "Status"]]) {
  const values = [...new Set(data.runs.map((_, i) => get(i, key)))].sort();
  const label = document.createElement("label");
  label.innerHTML = `${name}<select data-key="${key}"><option value="">all</option>${values.map((v) => `<option>${escapeText(v)}</option>`).join("")}</select>`;
  form.append(label);
}
form.insertAdjacentHTML("beforeend", '<label>Search<input type="search" id="words" placeholder="run id, method, …"></label>');
form.addEventListener("submit", (e) => e.preventDefault());
form.addEventListener("input", () => {
  form.querySelectorAll("select").forEach((s) => { state.filters[s.dataset.key] = s.value; });
  state.words = document.getElementById("words").value.toLowerCase().split(/\s+/).filter(Boolean);
  state.page = 0;
  list();
});
const head = document.querySelector("#runs-table thead");
head.innerHTML = `<tr>${shown.map(([key, name]) => `<th scope="col" class="${numeric.has(key) ? "num" : ""}"><button type="button" class="sort" data-key="${key}">${name}</button></th>`).join("")}</tr>`;
head.addEventListener("click", (e) => {
  const button = e.target.closest("button");
  if (!button) return;
  state.up = state.key === button.dataset.key ? !state.up : !numeric.has(button.dataset.key);
  state.key = button.dataset.key;
  head.querySelectorAll("th").forEach((h) => h.removeAttribute("aria-sort"));
  button.parentNode.setAttribute("aria-sort", state.up ? "ascending" : "descending");
  list();
});
function chosen() {
  let found = data.runs.map((_, i) => i);
  for (const [key, wanted] of Object.entries(state.filters)) if (wanted) found = found.filter((i) => String(get(i, key)) === wanted);
  if (state.words.length) found = found.filter((i) => { const text = shown.map(([key]) => get(i, key)).join(" ").toLowerCase(); return state.words.every((w) => text.includes(w)); });
  if (state.key) {
    const sign = state.up ? 1 : -1;
    found.sort((a, b) => {
      const x = get(a, state.key), y = get(b, state.key);
      if (x === null || y === null) return (x === null) - (y === null); // without a number: always last
      return sign * (numeric.has(state.key) ? x - y : String(x).localeCompare(String(y), "en", { numeric: true })) || a - b;
    });
  }
  return found;
}
const shades = { done: "good", failed: "bad", damaged: "bad", running: "busy", interrupted: "idle" };
function list() {
  const found = chosen(), pages = Math.max(1, Math.ceil(found.length / PAGE));
  state.page = Math.min(state.page, pages - 1);
  const rows = found.slice(state.page * PAGE, (state.page + 1) * PAGE);
  document.querySelector("#runs-table tbody").innerHTML = rows.map((i) => `<tr>${shown.map(([key]) => {
    const v = get(i, key);
    if (key === "run_id") return `<th scope="row"><button type="button" class="open" data-run="${i}">${escapeText(v)}</button></th>`;
    if (key === "status") return `<td><span class="chip ${shades[v] || ""}">${escapeText(v)}</span></td>`;
    return numeric.has(key) ? `<td class="num">${v === null ? "–" : key === "seed" ? v : v.toFixed(2)}</td>` : `<td>${escapeText(v)}</td>`;
  }).join("")}</tr>`).join("");
  document.getElementById("runs-count").textContent = `${found.length} of ${data.runs.length} runs`;
  document.getElementById("page").textContent = `page ${state.page + 1} of ${pages}`;
  document.getElementById("previous").disabled = state.page === 0;
  document.getElementById("next").disabled = state.page >= pages - 1;
}
document.getElementById("previous").addEventListener("click", () => { state.page--; list(); });
document.getElementById("next").addEventListener("click", () => { state.page++; list(); });
document.querySelector("#runs-table tbody").addEventListener("click", (e) => { const b = e.target.closest("button.open"); if (b) openRun([Number(b.dataset.run)], 0); });
list();
const wanted = /^#run=(\w+)$/.exec(location.hash);
if (wanted && byId.has(wanted[1])) openRun([byId.get(wanted[1])], 0);
