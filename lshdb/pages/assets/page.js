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
  for (let each = document.querySelector(":target"); each; each = each.parentElement) {
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
const isSeen = (element) => !element.closest("details:not([open])");
// The members of a cluster get a head, and bars from the threshold to the best value. The oldest one's
// text is taken from the difference in which it stands already.
const listMembers = (open) => {
  const head = document.getElementById("member-head");
  if (head && open.matches(".cluster > .open") && !open.querySelector(".member-head")) open.prepend(head.content.cloneNode(true));
  for (const line of open.querySelectorAll(".member-line:not(.member-head)")) {
    const [threshold, best] = line.closest("[data-ends]").dataset.ends.split(" ");
    const [, bar, { textContent: value }] = line.children;
    if (!value) continue;
    bar.className = "range";
    bar.style.setProperty("--portion", value === "copy" ? 1 : (value - threshold) / (best - threshold));
  }
  const empty = open.querySelector(".clamp:empty");
  if (!empty) return;
  const [own] = empty.parentElement.querySelectorAll(".key");
  const isBeside = (diff) => diff.parentElement.querySelectorAll(".member-line .key")[1].textContent === own.textContent;
  const diff = [...open.querySelectorAll(".member > .diff:not(:has(.fold))")].find(isBeside);
  const text = diff.querySelector(".side").cloneNode(true);
  text.className = `text${diff.matches(".code") ? " code" : ""}${diff.matches(".exact") ? "" : " flowing"}`;
  for (const each of text.querySelectorAll("ins, b, br.r")) each.remove();
  for (const each of text.querySelectorAll("del, i, u")) each.replaceWith(...each.childNodes);
  empty.append(text);
};
// Two texts stand as one with its changes. When they are seen, they get two columns: the style
// shows in each what its text has. Where lines may flow, a switch shows those that are stored.
const layOut = (within) => {
  for (const open of within.querySelectorAll(".open")) if (isSeen(open)) listMembers(open);
  for (const each of within.querySelectorAll(".diff:not(.two)")) {
    if (!isSeen(each)) continue;
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
addEventListener("toggle", (event) => isSeen(event.target) && layOut(event.target), true);
layOut(document);
// A text that is too long for an address is sent as a body.
for (const form of document.querySelectorAll("form[data-longest]")) {
  form.addEventListener("submit", () => {
    const address = new URLSearchParams(new FormData(form)).toString();
    form.method = address.length > Number(form.dataset.longest) ? "post" : "get";
  });
}
