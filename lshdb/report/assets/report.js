"use strict";
(() => {
  const PAGE = 50;

  // Clusters: a filter, and some at a time.
  const clusters = [...document.querySelectorAll(".cluster")];
  const form = document.getElementById("cluster-filter");
  const count = document.getElementById("cluster-count");
  const pages = document.getElementById("cluster-pages");
  let page = 0;
  let found = clusters;

  const within = (cluster, wanted) => {
    const { size, low, high, first, last } = cluster.dataset;
    if (wanted.size && Number(size) < Number(wanted.size)) return false;
    if (wanted.low && (high === "" || Number(high) < Number(wanted.low))) return false;
    if (wanted.high && (low === "" || Number(low) > Number(wanted.high))) return false;
    if (wanted.first && last < wanted.first) return false;
    if (wanted.last && first > wanted.last) return false;
    if (wanted.source) {
      const sources = JSON.parse(cluster.dataset.sources);
      if (!sources.some((each) => each.toLowerCase().includes(wanted.source))) return false;
    }
    return !wanted.text || cluster.textContent.toLowerCase().includes(wanted.text);
  };

  const draw = () => {
    const chosen = new Set(found.slice(page * PAGE, (page + 1) * PAGE));
    for (const each of clusters) each.hidden = !chosen.has(each);
    const last = Math.max(0, Math.ceil(found.length / PAGE) - 1);
    pages.hidden = last === 0;
    const [back, place, on] = pages.children;
    place.textContent = `Page ${page + 1} of ${last + 1}`;
    back.disabled = page === 0;
    on.disabled = page === last;
    const n = found.length.toLocaleString("en");
    const all = clusters.length.toLocaleString("en");
    if (count) count.textContent = n === all ? `${all} clusters` : `${n} of ${all} clusters`;
  };

  const filter = () => {
    const wanted = Object.fromEntries(new FormData(form));
    for (const name of ["text", "source"]) wanted[name] = wanted[name].trim().toLowerCase();
    found = clusters.filter((each) => within(each, wanted));
    page = 0;
    draw();
  };

  if (form && clusters.length) {
    form.hidden = false;
    let waiting;
    form.addEventListener("input", () => {
      clearTimeout(waiting);
      waiting = setTimeout(filter, 150);
    });
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      filter();
    });
    form.addEventListener("reset", () => setTimeout(filter));
    draw();
  }
  if (pages) {
    pages.addEventListener("click", (event) => {
      const step = Number(event.target.dataset.step || 0);
      if (!step) return;
      page += step;
      draw();
      (count || pages).scrollIntoView({ block: "start" });
    });
  }
  const reveal = () => {
    const wanted = document.getElementById(location.hash.slice(1));
    const place = wanted ? found.indexOf(wanted) : -1;
    if (place < 0) return;
    page = Math.floor(place / PAGE);
    draw();
    wanted.scrollIntoView();
  };
  addEventListener("hashchange", reveal);
  reveal();

  // All clusters are printed, whichever are shown.
  addEventListener("beforeprint", () => {
    for (const each of found) each.hidden = false;
  });
  addEventListener("afterprint", () => {
    if (pages) draw();
  });

  // Marks on pairs, saved as a file of labels: key1, key2 and yes or no, with tabs between.
  const controls = document.getElementById("label-controls");
  const save = document.getElementById("save-labels");
  const said = document.getElementById("label-count");
  const pairs = [...document.querySelectorAll(".pair")];
  let isSaved = true;
  const escapes = { "\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r" };
  const cell = (key) => JSON.parse(key).replace(/[\\\t\n\r]/g, (each) => escapes[each]);
  const labels = () => {
    const lines = [];
    for (const pair of pairs) {
      const mark = pair.querySelector("input:checked");
      if (!mark || !mark.value) continue;
      lines.push(`${cell(pair.dataset.key1)}\t${cell(pair.dataset.key2)}\t${mark.value}\n`);
    }
    return lines;
  };
  if (controls) {
    controls.hidden = false;
    for (const each of document.querySelectorAll(".marks")) each.hidden = false;
    document.getElementById("pairs").addEventListener("change", () => {
      const n = labels().length;
      isSaved = n === 0;
      save.disabled = n === 0;
      said.textContent = n === 0 ? "No pair is marked." : n === 1 ? "1 pair is marked." : `${n} pairs are marked.`;
    });
    save.addEventListener("click", () => {
      const link = document.createElement("a");
      link.href = URL.createObjectURL(new Blob(labels(), { type: "text/tab-separated-values" }));
      link.download = "labels.tsv";
      link.click();
      setTimeout(() => URL.revokeObjectURL(link.href), 10000);
      isSaved = true;
      said.textContent = "The labels were saved as labels.tsv.";
    });
    addEventListener("beforeunload", (event) => {
      if (!isSaved) event.preventDefault();
    });
  }
})();
