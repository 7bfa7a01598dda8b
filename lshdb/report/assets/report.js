"use strict";
(() => {
  const PAGE = 25;
  const AROUND = 60;

  // Clusters: a search, filters and an order; some at a time.
  const list = document.getElementById("clusters");
  const clusters = [...document.querySelectorAll(".cluster")];
  const form = document.getElementById("cluster-filter");
  const count = document.getElementById("cluster-count");
  const pages = document.getElementById("cluster-pages");
  const texts = new Map();
  let page = 0;
  let matches = clusters;
  let word = "";

  const textOf = (cluster) => {
    if (!texts.has(cluster)) texts.set(cluster, cluster.textContent.toLowerCase());
    return texts.get(cluster);
  };
  const isOfNight = (cluster, night) => {
    const square = cluster.querySelectorAll(".squares b")[night - 1];
    return square && square.className;
  };
  const within = (cluster, asked) => {
    const { size, low, high, first, last } = cluster.dataset;
    if (asked.size && Number(size) < Number(asked.size)) return false;
    if (asked.low && !(Number(high) >= Number(asked.low))) return false;
    if (asked.high && !(Number(low) <= Number(asked.high))) return false;
    if (asked.first && last < asked.first) return false;
    if (asked.last && first > asked.last) return false;
    if (asked.source) {
      const sources = JSON.parse(cluster.dataset.sources);
      if (!sources.some((each) => each.toLowerCase().includes(asked.source))) return false;
    }
    if (![asked.night, asked.with].every((night) => !night || isOfNight(cluster, night))) return false;
    return !asked.text || textOf(cluster).includes(asked.text);
  };
  const orders = {
    near: (a, b) => (b.dataset.high || 0) - (a.dataset.high || 0),
    far: (a, b) => (a.dataset.low || 0) - (b.dataset.low || 0),
    last: (a, b) => (a.dataset.last < b.dataset.last ? 1 : a.dataset.last > b.dataset.last ? -1 : 0),
  };

  // The word that is searched for is marked; where no closed line has it, a member's text shows it.
  const rangesIn = (element) => {
    const ranges = [];
    const walker = document.createTreeWalker(element, NodeFilter.SHOW_TEXT);
    for (let node = walker.nextNode(); node; node = walker.nextNode()) {
      const text = node.data.toLowerCase();
      for (let at = text.indexOf(word); at >= 0; at = text.indexOf(word, at + word.length)) {
        if (at + word.length > node.length) break;
        const range = new Range();
        range.setStart(node, at);
        range.setEnd(node, at + word.length);
        ranges.push(range);
      }
    }
    return ranges;
  };
  const ownWords = (text) => {
    const copy = text.cloneNode(true);
    for (const each of copy.querySelectorAll("del, i, u, .side-names, .two .side:first-child")) each.remove();
    return copy.textContent.replace(/\s+/g, " ");
  };
  const passage = (cluster) => {
    for (const member of cluster.querySelectorAll(".member")) {
      const text = member.querySelector(".text");
      const words = text ? ownWords(text) : "";
      const at = words.toLowerCase().indexOf(word);
      if (at >= 0) {
        const start = words.lastIndexOf(" ", Math.max(0, at - AROUND)) + 1;
        return `in ${member.querySelector(".key").textContent}: … ${words.slice(start, at + word.length + AROUND)} …`;
      }
    }
    return "";
  };
  const mark = (shown) => {
    const ranges = [];
    for (const cluster of shown) {
      cluster.querySelector(".hit")?.remove();
      if (!word) continue;
      const summary = cluster.querySelector("summary");
      const words = rangesIn(summary).length ? "" : passage(cluster);
      if (words) summary.querySelector(".lead").after(make("span", "hit", words));
      ranges.push(...rangesIn(cluster));
    }
    if (window.CSS && CSS.highlights) CSS.highlights.set("search", new Highlight(...ranges));
  };

  const draw = () => {
    const shown = matches.slice(page * PAGE, (page + 1) * PAGE);
    const chosen = new Set(shown);
    for (const each of clusters) each.hidden = !chosen.has(each);
    const last = Math.max(0, Math.ceil(matches.length / PAGE) - 1);
    pages.hidden = last === 0;
    const [back, on, place] = pages.children;
    const n = matches.length.toLocaleString("en");
    const all = clusters.length.toLocaleString("en");
    place.textContent = `${page * PAGE + 1} to ${page * PAGE + shown.length} of ${n}`;
    back.disabled = page === 0;
    on.disabled = page === last;
    if (count) count.textContent = n === all ? `${all} clusters` : `${n} of ${all} clusters`;
    mark(shown);
  };

  const filter = () => {
    const asked = Object.fromEntries(new FormData(form));
    for (const name of ["text", "source"]) asked[name] = asked[name].trim().toLowerCase();
    word = asked.text;
    const order = orders[asked.sort];
    matches = clusters.filter((each) => within(each, asked));
    if (order) matches.sort(order);
    list.append(...(order ? matches : clusters));
    const n = Object.entries(asked).filter(([name, value]) => value && name !== "text" && name !== "sort").length;
    form.querySelector(".button > summary").textContent = `Filters: ${n || "none"}`;
    page = 0;
    draw();
  };

  // What is shown has an address: the fields of the form, the page, and the cluster that is open.
  let opened = "";
  const keepAddress = () => {
    const values = new URLSearchParams();
    for (const [name, value] of new FormData(form)) if (value) values.set(name, value);
    if (page) values.set("page", page + 1);
    if (opened) values.set("open", opened);
    history.replaceState(null, "", `${location.href.split("#")[0]}#${values}`);
  };
  const reveal = (cluster) => {
    const place = matches.indexOf(cluster);
    if (place < 0) return;
    page = Math.floor(place / PAGE);
    draw();
    cluster.scrollIntoView();
  };
  const followAddress = () => {
    if (!location.hash.includes("=")) return reveal(document.getElementById(location.hash.slice(1)));
    const values = new URLSearchParams(location.hash.slice(1));
    for (const each of form.elements) if (each.name) each.value = values.get(each.name) || "";
    filter();
    page = Math.min(Math.max(0, values.get("page") - 1 || 0), Math.max(0, Math.ceil(matches.length / PAGE) - 1));
    draw();
    form.scrollIntoView();
    const cluster = document.getElementById(`cluster-${values.get("open")}`);
    if (!cluster) return;
    cluster.open = true;
    reveal(cluster);
  };
  if (form && clusters.length) {
    for (const each of [form, ...document.querySelectorAll("[data-scripted]")]) each.hidden = false;
    let waiting;
    form.addEventListener("input", () => {
      clearTimeout(waiting);
      waiting = setTimeout(() => {
        filter();
        keepAddress();
      }, 150);
    });
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      filter();
      keepAddress();
    });
    form.addEventListener("reset", () =>
      setTimeout(() => {
        filter();
        keepAddress();
      }),
    );
    pages.addEventListener("click", (event) => {
      const step = Number(event.target.dataset.step || 0);
      if (!step) return;
      page += step;
      draw();
      keepAddress();
      form.scrollIntoView({ block: "start" });
    });
    list.addEventListener(
      "toggle",
      ({ target }) => {
        if (!target.matches(".cluster")) return;
        const number = target.id.slice("cluster-".length);
        if (target.open) opened = number;
        else if (opened === number) opened = "";
        else return;
        keepAddress();
      },
      true,
    );
    filter();
    addEventListener("hashchange", followAddress);
    followAddress();
  }

  // Long texts end at a line, with a button for the rest.
  for (const each of document.querySelectorAll(".clamp")) {
    if (each.textContent.length < 1200) continue;
    each.classList.add("clamped");
    const more = document.createElement("button");
    more.type = "button";
    more.className = "link";
    more.textContent = "Show all of it";
    more.addEventListener("click", () => {
      each.classList.remove("clamped");
      more.remove();
    });
    each.append(more);
  }

  // The section that is being read is marked in the navigation.
  const links = [...document.querySelectorAll('.tabs a[href^="#"]')];
  const heads = links.map((each) => document.getElementById(each.hash.slice(1)));
  const follow = () => {
    const isEnd = innerHeight + scrollY >= document.documentElement.scrollHeight - 8;
    const place = isEnd ? heads.length - 1 : heads.findLastIndex((each) => each && each.getBoundingClientRect().top < 160);
    links.forEach((each, number) => {
      if (number !== Math.max(0, place)) return each.removeAttribute("aria-current");
      if (each.ariaCurrent) return;
      each.setAttribute("aria-current", "true");
      const bar = each.closest("ul");
      bar.scrollLeft = each.offsetLeft - bar.offsetLeft - 48;
    });
  };
  if (links.length) addEventListener("scroll", follow, { passive: true });

  // All clusters and pairs are printed, whichever are shown.
  const pairs = [...document.querySelectorAll(".pair")];
  addEventListener("beforeprint", () => {
    for (const each of [...matches, ...pairs]) each.hidden = false;
  });
  addEventListener("afterprint", () => {
    if (pages) draw();
    if (pairs.length) show();
  });

  // The stack of pairs: y, n, space and u. Answers are kept in the browser, and saved as labels:
  // key1, key2 and yes or no, with tabs between.
  const save = document.getElementById("save-labels");
  const said = document.getElementById("label-count");
  const dots = [...document.querySelectorAll(".near .dot")];
  const steps = [...document.querySelectorAll(".steps b")];
  const escapes = { "\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r" };
  const cell = (key) => JSON.parse(key).replace(/[\\\t\n\r]/g, (each) => escapes[each]);
  const line = (pair) => `${cell(pair.dataset.key1)}\t${cell(pair.dataset.key2)}\t`;
  const store = `lshdb labels: ${document.title}`;
  const answers = new Map();
  let now = 0;
  let isStored = true;
  try {
    for (const [name, answer] of JSON.parse(localStorage.getItem(store) || "[]")) {
      const place = pairs.findIndex((pair) => line(pair) === name);
      if (place >= 0) answers.set(place, answer);
    }
  } catch {
    isStored = false;
  }
  const show = () => {
    pairs.forEach((each, place) => (each.hidden = place !== now));
    const given = [...answers.values()];
    const [same, different] = ["yes", "no"].map((answer) => given.filter((each) => each === answer).length);
    const skipped = given.length - same - different;
    steps.forEach((each, place) => {
      each.className = place === now ? "now" : answers.has(place) ? "done" : "";
    });
    dots.forEach((each, place) => {
      const answer = answers.get(place);
      each.setAttribute("class", `dot ${answer === "" ? "skipped" : answer || ""} ${place === now ? "now" : ""}`);
    });
    const dot = dots[now];
    const flag = document.getElementById("this-pair");
    flag.toggleAttribute("hidden", !dot?.hasAttribute("cx"));
    if (dot?.hasAttribute("cx")) {
      const [line, text] = flag.children;
      const place = dot.getAttribute("cx");
      line.setAttribute("x1", place);
      line.setAttribute("x2", place);
      text.setAttribute("x", place);
      text.setAttribute("text-anchor", parseFloat(place) > 85 ? "end" : parseFloat(place) < 15 ? "start" : "middle");
      text.textContent = `this pair ${pairs[now].querySelector(".pair-head b").textContent}`;
    }
    document.getElementById("stack-place").textContent =
      now < pairs.length
        ? `Pair ${now + 1} of ${pairs.length}; ${same} the same, ${different} different, ${skipped} skipped`
        : `Done: ${same} the same, ${different} different, ${skipped} skipped`;
    document.getElementById("answers").hidden = now >= pairs.length;
    save.disabled = same + different === 0;
    said.textContent = save.disabled ? "Nothing to save yet: answer a pair first." : `${same + different} answered.`;
  };
  const keep = () => {
    try {
      localStorage.setItem(store, JSON.stringify([...answers].map(([place, answer]) => [line(pairs[place]), answer])));
    } catch {
      isStored = false;
    }
  };
  const answer = (value) => {
    if (now >= pairs.length) return;
    answers.set(now, value);
    now += 1;
    keep();
    show();
  };
  const takeBack = () => {
    now = Math.max(0, now - 1);
    answers.delete(now);
    keep();
    show();
  };
  if (pairs.length) {
    document.getElementById("pairs").classList.add("stacked");
    document.querySelector(".stack-head").hidden = false;
    document.getElementById("label-controls").hidden = false;
    while (answers.has(now)) now += 1;
    show();
    document.getElementById("answers").addEventListener("click", (event) => {
      const button = event.target.closest("button");
      if (!button) return;
      if (event.detail) button.blur(); // by a pointer: the next space skips, and does not press it
      answer(button.dataset.answer);
    });
    addEventListener("keydown", (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey) return;
      const focused = document.activeElement;
      if (focused.closest("input, select, textarea")) return;
      if (event.key === " " && focused.closest("button, summary, a")) return; // it presses that
      const box = document.getElementById("pairs").getBoundingClientRect();
      if (box.bottom < 0 || box.top > innerHeight) return; // somebody reads another section
      if (event.key === "y") answer("yes");
      else if (event.key === "n") answer("no");
      else if (event.key === " ") answer("");
      else if (event.key === "u") takeBack();
      else return;
      event.preventDefault();
    });
    save.addEventListener("click", () => {
      const labels = [...answers].filter(([, value]) => value).sort(([a], [b]) => a - b);
      const link = document.createElement("a");
      link.href = URL.createObjectURL(
        new Blob(labels.map(([place, value]) => `${line(pairs[place])}${value}\n`), { type: "text/tab-separated-values" }),
      );
      link.download = "labels.tsv";
      link.click();
      setTimeout(() => URL.revokeObjectURL(link.href), 10000);
      isStored = true;
      said.textContent = "The answers were saved as labels.tsv.";
    });
    addEventListener("beforeunload", (event) => {
      if (!isStored && answers.size) event.preventDefault();
    });
  }
})();
