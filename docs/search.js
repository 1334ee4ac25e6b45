// Order of the site's search results: pages whose title has the words of the query, other pages, then names of the API.
// A query with a capital letter inside, a dot or an underscore (`PlannedCache`, `write_report`) asks for such a name.
const stemsOf = (text) => {
  const stemmer = new Stemmer();
  return (text.toLowerCase().match(/[\p{L}\p{N}]+/gu) ?? []).map((word) => stemmer.stemWord(word));
};

var Scorer = {
  score: ([page, title, anchor, description, score, file, kind]) => {
    const query = new URLSearchParams(window.location.search).get("q");
    const asksForName = /\S[._]\S|[a-z][A-Z]/.test(query);
    if (kind === "object" || page.startsWith("api/")) return asksForName ? score : score - 100;
    const [words, titles] = [stemsOf(query), stemsOf(title)];
    const shared = words.filter((word) => titles.includes(word)).length;
    return score + (10 * shared) / words.length + (5 * shared) / titles.length;
  },
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
