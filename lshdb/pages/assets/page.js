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
// Texts flow; a switch shows the lines that they were stored with.
for (const each of document.querySelectorAll("[data-breaks]")) each.hidden = false;
addEventListener("click", (event) => {
  if (!event.target.matches("[data-breaks]")) return;
  const isAsItIs = document.body.classList.toggle("as-it-is");
  const words = isAsItIs ? "Let the text flow" : "Show the original line breaks";
  for (const each of document.querySelectorAll("[data-breaks]")) each.textContent = words;
});
// A text that is too long for an address is sent as a body.
for (const form of document.querySelectorAll("form[data-longest]")) {
  form.addEventListener("submit", () => {
    const address = new URLSearchParams(new FormData(form)).toString();
    form.method = address.length > Number(form.dataset.longest) ? "post" : "get";
  });
}
