// Tables as text.

/** Yield the rows of a CSV text, each a list of cells. */
export function* parseCsv(text, separator = ",") {
  const plain = `[^${separator}\\r\\n]*`;
  const stop = `${separator}|\\r?\\n|$`;
  const cell = new RegExp(`(?:"((?:[^"]|"")*)"|(${plain}))(${stop})`, "y");
  let row = [];
  while (cell.lastIndex < text.length) {
    const [, quoted, bare, end] = cell.exec(text) ?? [];
    if (end === undefined) return;
    row.push(quoted === undefined ? bare : quoted.replaceAll('""', '"'));
    if (end === separator) continue;
    yield row;
    row = [];
  }
  if (row.length) yield [...row, ""]; // the last line ends with a separator
}

/** What separates the cells of a header: a tab, a semicolon or a comma. */
export function findSeparator(header) {
  return ["\t", ";"].find((separator) => header.includes(separator)) ?? ",";
}
