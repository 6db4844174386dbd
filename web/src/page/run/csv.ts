/** The number of columns that tables show. */
export const widest = 100;

/**
 * table parses a CSV text into rows of cells. Quotes, and newlines in them, follow RFC 4180; `more` reports whether rows were left out, and `columns`
 * counts the cells of the longest row, also those that were left out.
 */
export function table(text: string, separator: string, mostRows: number, mostColumns = widest): { rows: string[][]; more: boolean; columns: number } {
  const rows: string[][] = [];
  let row: string[] = [];
  let columns = 0;
  let cells = 0;
  let at = text.charCodeAt(0) === 0xfeff ? 1 : 0;
  const end = (cell: string) => {
    if (row.length < mostColumns) row.push(cell);
    columns = Math.max(columns, ++cells);
  };
  const endRow = () => {
    rows.push(row);
    row = [];
    cells = 0;
  };
  while (at < text.length) {
    if (rows.length === mostRows) return { rows, more: true, columns };
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
      endRow();
    } else if (at === text.length - 1) {
      end(""); // the text ends with a separator
      endRow();
    }
    at++;
  }
  return { rows, more: false, columns };
}
