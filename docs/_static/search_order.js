// In which order the search shows what it finds: the names that most programs use come first.
var Scorer = {
  objNameMatch: 16, objPartialMatch: 11, objPrio: { 0: 15, 1: 5, 2: -5 }, objPrioDefault: 0,
  title: 15, partialTitle: 7, term: 5, partialTerm: 2,
  score: ([page, , , , score]) => {
    if (!page.startsWith("api/")) return score;
    const rare = /\.(experimental|extend|example_libraries|interpreters|errors)\b/.test(page);
    return score - page.split(".").length / 2 - (rare ? 6 : 0);
  },
};
