/** table parses a CSV text into rows of cells. Quotes, and newlines in them, follow RFC 4180; `more` reports whether rows were left out. */
export function table(text: string, separator: string, mostRows: number, mostColumns = 100): { rows: string[][]; more: boolean } {
  const rows: string[][] = [];
  let row: string[] = [];
  let at = text.charCodeAt(0) === 0xfeff ? 1 : 0;
  const end = (cell: string) => {
    if (row.length < mostColumns) row.push(cell);
  };
  while (at < text.length) {
    if (rows.length === mostRows) return { rows, more: true };
    let cell = "";
    if (text[at] === '"') {
      for (at++; ; at++) {
        const to = text.indexOf('"', at);
        cell += text.slice(at, to < 0 ? text.length : to);
        at = to < 0 ? text.length : to + 1;
        if (text[at] !== '"') break;
        cell += '"';
      }
    }
    const from = at;
    while (at < text.length && text[at] !== separator && text[at] !== "\n") at++;
    if (row.length < mostColumns) cell += text.slice(from, text[at - 1] === "\r" && at > from && text[at] === "\n" ? at - 1 : at);
    end(cell);
    if (at >= text.length || text[at] === "\n") {
      rows.push(row);
      row = [];
    } else if (at === text.length - 1) {
      end(""); // the text ends with a separator
      rows.push(row);
      row = [];
    }
    at++;
  }
  return { rows, more: false };
}
