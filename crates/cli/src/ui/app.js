// Keeps a page of `muster ui` up to date: puts the sections that the server sends in their places, filters the list of
// jobs, and follows a log. Markup comes from the server, which has escaped it; lines of logs are only ever text.

const LINES_MAX = 5000;
const main = document.querySelector("main");

/** Replaces a section; what a person has opened, scrolled to or focused stays so. */
function replace(id, html) {
  const section = document.getElementById(id);
  if (!section || section.contains(document.getSelection()?.anchorNode) && !document.getSelection().isCollapsed) {
    return Boolean(section) === false;
  }
  const focused = [...section.querySelectorAll("a,[tabindex],summary")].indexOf(document.activeElement);
  const open = [...section.querySelectorAll("details")].map((one) => one.open);
  const scrolled = [...section.querySelectorAll(".wide,.log")].map((one) => [one.scrollLeft, one.scrollTop]);
  section.innerHTML = html;
  section.querySelectorAll("details").forEach((one, at) => { if (at in open) one.open = open[at]; });
  section.querySelectorAll(".wide,.log").forEach((one, at) => { if (at in scrolled) one.scrollTo(...scrolled[at]); });
  if (focused >= 0) section.querySelectorAll("a,[tabindex],summary")[focused]?.focus({ preventScroll: true });
  return true;
}

/** Sections that came while a person was selecting text in them. */
const waiting = new Map();
document.addEventListener("selectionchange", () => {
  for (const [id, html] of waiting) if (replace(id, html)) waiting.delete(id);
});

function put(id, html) {
  waiting.delete(id);
  if (!replace(id, html)) waiting.set(id, html);
}

/** Follows this page as long as a person can see it: browsers allow six connections to one server, over all tabs. */
function followWhileSeen(address) {
  let source = follow(address);
  document.addEventListener("visibilitychange", () => {
    source?.close();
    source = document.hidden ? undefined : follow(address);
  });
}

function follow(address) {
  const lost = document.getElementById("lost");
  const source = new EventSource(address);
  source.addEventListener("open", () => { lost.hidden = true; });
  source.addEventListener("error", () => { lost.hidden = false; });
  source.addEventListener("sections", (message) => {
    for (const [id, html] of Object.entries(JSON.parse(message.data))) {
      if (id === "list") cut = html.includes("<p data-cut");
      // What is searched for may be among the jobs that were not sent.
      if (id === "list" && cut && searched()) continue;
      put(id, html);
    }
    filter();
    if (cut && searched() && !asked) find();
    said();
  });
  return source;
}

/** Tells whoever does not see the page what has changed. */
function said() {
  const sentence = document.querySelector("#verdict .sentence")?.textContent ?? "";
  const place = document.getElementById("said");
  // A time that grows is no news.
  const news = sentence.replace(/\d+(\.\d+)?[smhd]/g, "");
  if (place.dataset.news !== news) {
    if (place.dataset.news !== undefined) place.textContent = sentence;
    place.dataset.news = news;
    const phase = document.querySelector("#verdict .phase")?.dataset.phase;
    const name = document.querySelector("#verdict bdi")?.textContent;
    if (phase && name) document.title = `${name}: ${phase}`;
  }
}

const search = document.getElementById("filter");
function filter() {
  if (!search) return;
  const text = search.elements.q.value.trim().toLowerCase();
  const state = search.elements.state.value;
  for (const row of document.querySelectorAll("tr[data-text]")) {
    row.hidden = !row.dataset.text.includes(text) || (state !== "" && row.dataset.state !== state);
  }
}

/** Whether the server has more jobs than it sends. */
let cut = Boolean(document.querySelector("#list [data-cut]"));
const searched = () => Boolean(search && (search.elements.q.value.trim() || search.elements.state.value));

/** Asks the server for the jobs that are searched for; an answer to an earlier question counts no more. */
let asked;
async function find() {
  asked?.abort();
  const mine = asked = new AbortController();
  const query = new URLSearchParams({ q: search.elements.q.value.trim(), state: search.elements.state.value });
  try {
    const answer = await fetch(`/?${query}`, { signal: mine.signal });
    if (!answer.ok) return;
    const found = new DOMParser().parseFromString(await answer.text(), "text/html").getElementById("list");
    if (found && !mine.signal.aborted) put("list", found.innerHTML);
    filter();
  } catch {
    // A newer question has taken the place of this one, or the server is away, which the page says by itself.
  } finally {
    if (asked === mine) asked = undefined;
  }
}

function changed() {
  filter();
  if (cut) find();
}
search?.addEventListener("input", changed);
search?.addEventListener("submit", (event) => { event.preventDefault(); changed(); });

/** The log that is followed now. */
let log;
function followLog(section) {
  log?.close();
  const place = section.querySelector("pre");
  place.replaceChildren();
  place.hidden = false;
  log = new EventSource(`${section.dataset.log}?${new URLSearchParams(new FormData(section.querySelector("form")))}`);
  const add = (lines) => {
    const atEnd = place.scrollTop + place.clientHeight >= place.scrollHeight - 8;
    for (const line of lines) place.append(Object.assign(document.createElement("div"), { textContent: line || "\u200b" }));
    while (place.childElementCount > LINES_MAX) place.firstElementChild.remove();
    if (atEnd) place.scrollTop = place.scrollHeight;
  };
  log.addEventListener("lines", (message) => add(JSON.parse(message.data)));
  log.addEventListener("end", (message) => { log.close(); add([`-- ${JSON.parse(message.data)}`]); });
}
const section = document.getElementById("follow");
section?.querySelector("form").addEventListener("submit", (event) => { event.preventDefault(); followLog(section); });

filter();
said();
followWhileSeen(main.dataset.live);
