// Two optional extras: a filter, and schemas that open when a link leads to them.
"use strict";

const filter = document.getElementById("filter");
filter.hidden = false;
filter.addEventListener("input", () => {
  const wanted = filter.value.trim().toLowerCase();
  for (const article of document.querySelectorAll("article")) {
    const shown = article.dataset.words.toLowerCase().includes(wanted);
    article.hidden = !shown;
    const link = document.querySelector(`nav a[href="#${article.id}"]`);
    if (link) link.parentElement.hidden = !shown;
  }
});

function openTarget() {
  const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  if (target instanceof HTMLDetailsElement) {
    target.open = true;
    target.scrollIntoView();
  }
}
addEventListener("hashchange", openTarget);
openTarget();
