// Only in the served page (report --serve): asks now and then whether there is a newer one, and takes it without losing the
// reader's place: scroll position, open parts, filters, order, page of the list of runs.
const live = document.getElementById("live");
const here = live.dataset.version;
const PLACE = "place-in-the-report";
const all = (selector) => [...document.querySelectorAll(selector)];
const store = { get: () => { try { return JSON.parse(sessionStorage.getItem(PLACE)); } catch (e) { return null; } },
  set: (found) => { try { sessionStorage.setItem(PLACE, JSON.stringify(found)); } catch (e) { /* without storage the page starts at its top */ } } };

// What is remembered goes by the nearest part of the page with an id: a new table above must not shift it.
const inPart = (selector) => {
  const seen = {};
  return all(selector).map((element) => {
    const part = element.closest("section[id]")?.id ?? "";
    seen[part] = (seen[part] ?? -1) + 1;
    return [`${part} ${seen[part]}`, element];
  });
};
function atTop() { // the part at the top of the screen, and how far it is scrolled
  const passed = all("section[id]").filter((s) => s.getBoundingClientRect().top <= 80);
  const part = passed.at(-1);
  return part ? { id: part.id, offset: part.getBoundingClientRect().top } : { id: "", offset: -scrollY };
}
function remember() {
  store.set({
    top: atTop(),
    parts: inPart("details").map(([key, d]) => [key, d.open]),
    fields: inPart("main input, main select").map(([key, f]) => [key, f.value]).filter(([, value]) => value),
    orders: inPart("main table").map(([key, t]) => [key, [...t.querySelectorAll("thead th")].findIndex((h) => h.hasAttribute("aria-sort")), t.querySelector("thead th[aria-sort]")?.getAttribute("aria-sort")]).filter(([, column]) => column >= 0),
    aside: inPart(".sheet").map(([key, s]) => [key, s.scrollLeft]).filter(([, left]) => left),
    nav: document.querySelector("nav").scrollTop, page: state.page,
  });
}
function restore(found) {
  const each = (selector, pairs, act) => { const known = new Map(inPart(selector)); for (const [key, ...rest] of pairs) if (known.has(key)) act(known.get(key), ...rest); };
  each("details", found.parts, (d, open) => { d.open = open; });
  each("main input, main select", found.fields, (f, value) => { f.value = value; f.dispatchEvent(new Event("input", { bubbles: true })); });
  each("main table", found.orders, (t, column, order) => {
    for (let turn = 0; turn < 2; turn++) { // a click turns the order round
      const head = t.querySelectorAll("thead th")[column];
      if (head && head.getAttribute("aria-sort") !== order) head.querySelector("button.sort")?.click();
    }
  });
  each(".sheet", found.aside, (s, left) => { s.scrollLeft = left; });
  state.page = found.page;
  list();
  document.querySelector("nav").scrollTop = found.nav;
  const settle = () => {
    const part = found.top.id && document.getElementById(found.top.id);
    scrollTo({ top: scrollY + (part ? part.getBoundingClientRect().top : -scrollY) - found.top.offset, behavior: "instant" });
  };
  settle();
  addEventListener("load", () => requestAnimationFrame(settle)); // after the browser's own jump to the fragment in the address
}
const busy = () => dialog.open || document.activeElement?.matches("main input, main select") || !getSelection().isCollapsed;

history.scrollRestoration = "manual";
const before = store.get();
if (before) { sessionStorage.removeItem(PLACE); restore(before); }

async function ask() {
  let wait = 1000;
  try {
    const answer = await fetch("version", { cache: "no-store" });
    const there = answer.ok ? await answer.text() : here;
    if (there !== here && !busy()) { remember(); location.reload(); return; }
    live.textContent = there !== here ? "New records: shown when you have finished here" : live.dataset.words;
    live.className = "chip busy";
  } catch (e) {
    live.textContent = "Not live: the server has ended";
    live.className = "chip idle";
    wait = 10000;
  }
  setTimeout(ask, wait);
}
ask();
