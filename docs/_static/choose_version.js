// Offers the versions that versions.js lists, and opens the same page of the chosen one.
(() => {
  const choice = document.getElementById("weft-version");
  const { version, root } = choice.dataset;
  for (const name of window.weftVersions || []) {
    if (name !== version) choice.add(new Option(name));
  }
  choice.addEventListener("change", () => {
    window.location.href = `${root}../${choice.value}/index.html`;
  });
})();
