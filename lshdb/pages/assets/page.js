"use strict";
// Shared by all pages. What a reader folds open stays open in print; nothing else happens by itself.
addEventListener("beforeprint", () => {
  for (const each of document.querySelectorAll("details:not([open])[data-print]")) {
    each.open = true;
    each.dataset.closeAgain = "";
  }
});
addEventListener("afterprint", () => {
  for (const each of document.querySelectorAll("details[data-close-again]")) {
    each.open = false;
    delete each.dataset.closeAgain;
  }
});
// A link to a folded part unfolds it.
const unfold = () => {
  const name = decodeURIComponent(location.hash.slice(1));
  for (let each = name && document.getElementById(name); each; each = each.parentElement) {
    if (each.tagName === "DETAILS") each.open = true;
  }
};
addEventListener("hashchange", unfold);
unfold();
const make = (tag, name, ...content) => {
  const element = document.createElement(tag);
  element.className = name;
  element.append(...content);
  return element;
};
// Two texts stand as one with its changes. When they are seen, they get two columns: the style
// shows in each what its text has. Where lines may flow, a switch shows those that are stored.
// The members of a cluster get bars, from the threshold to the best value.
const layOut = (within) => {
  const head = document.getElementById("member-head");
  for (const each of within.querySelectorAll(".cluster > .open")) {
    if (!each.querySelector(".member-head")) each.prepend(head.content.cloneNode(true));
  }
  for (const line of within.querySelectorAll(".member-line:not(.member-head)")) {
    const [threshold, best] = line.closest("[data-ends]").dataset.ends.split(" ");
    const [, bar, { textContent: value }] = line.children;
    if (!value) continue;
    bar.className = "range";
    bar.style.setProperty("--portion", value === "copy" ? 1 : (value - threshold) / (best - threshold));
  }
  for (const each of within.querySelectorAll(".diff:not(.two)")) {
    each.classList.add("two");
    for (const side of each.querySelectorAll(".side")) side.before(side.cloneNode(true));
    const member = each.closest(".member");
    if (member && !each.querySelector(".side-names")) {
      const [own, nearest] = member.querySelectorAll(".member-line .key");
      const names = [nearest, own].map((key) => make("div", "", make("span", "one-column", "only in "), key.cloneNode(true)));
      each.prepend(make("div", "sides side-names", ...names));
    }
    if (!each.querySelector("br")) continue;
    const button = make("button", "link breaks");
    button.type = "button";
    const next = each.nextElementSibling;
    if (next && next.matches(".under-diff")) next.append(button);
    else each.after(make("p", "under-diff", button));
  }
  label();
};
const label = () => {
  const words = document.body.classList.contains("as-it-is") ? "Let the text flow" : "Show the original line breaks";
  for (const each of document.querySelectorAll(".breaks")) each.textContent = words;
};
addEventListener("click", (event) => {
  if (!event.target.matches(".breaks")) return;
  document.body.classList.toggle("as-it-is");
  label();
});
const isSeen = (element) => !element.closest("details:not([open])");
addEventListener("toggle", (event) => isSeen(event.target) && layOut(event.target), true);
for (const each of document.querySelectorAll(".diff, .member-line")) if (isSeen(each)) layOut(each.parentElement);
// A text that is too long for an address is sent as a body.
for (const form of document.querySelectorAll("form[data-longest]")) {
  form.addEventListener("submit", () => {
    const address = new URLSearchParams(new FormData(form)).toString();
    form.method = address.length > Number(form.dataset.longest) ? "post" : "get";
  });
}
