// The model card: Markdown as elements.

import { make } from "./dom.js";

/** Render headings, paragraphs, lists, tables and code as elements; everything else stays text. */
export function renderMarkdown(text) {
  const lines = text.split(/\r?\n/);
  const blocks = [];
  const take = (pattern) => {
    const other = lines.findIndex((line) => !pattern.test(line));
    return lines.splice(0, other < 0 ? lines.length : other);
  };
  while (lines.length) {
    const title = lines[0].match(/^(#{1,6}) +(.*)/);
    if (lines[0].startsWith("```")) {
      lines.shift();
      blocks.push(make("pre", { tabIndex: 0 }, make("code", {}, take(/^(?!```)/).join("\n"))));
      lines.shift();
    } else if (title) {
      lines.shift();
      blocks.push(make(`h${Math.min(6, title[1].length + 2)}`, {}, ...renderInline(title[2])));
    } else if (lines[0].startsWith("|")) {
      blocks.push(renderTable(take(/^\|/)));
    } else if (/^(-|\d+\.) /.test(lines[0])) {
      blocks.push(renderList(take(/^(-|\d+\.) |^\s+\S/)));
    } else if (lines[0].trim()) {
      const words = [lines.shift(), ...take(/^(?!```|#{1,6} |\||- )\s*\S/)].join(" ");
      blocks.push(make("p", {}, ...renderInline(words)));
    } else {
      lines.shift();
    }
  }
  return blocks.filter((block) => block.textContent.trim());
}

function renderList(lines) {
  const items = [];
  for (const line of lines) {
    if (/^\s/.test(line)) items.push(`${items.pop()} ${line.trim()}`);
    else items.push(line.replace(/^\S+ +/, ""));
  }
  const tag = /^\d/.test(lines[0]) ? "ol" : "ul";
  return make(tag, {}, ...items.map((item) => make("li", {}, ...renderInline(item))));
}

function renderTable(lines) {
  const [head, rule = [], ...rows] = lines.map((line) =>
    [...line.slice(1).matchAll(/((?:\\.|[^|\\])*)\|/g)].map(([, cell]) => cell.trim()));
  const row = (tag, texts) =>
    make("tr", {}, ...texts.map((text, index) =>
      make(tag, { className: rule[index]?.endsWith(":") ? "number" : "" }, ...renderInline(text))));
  const body = rows.map((texts) => row("td", texts));
  const table = make("table", {}, make("thead", {}, row("th", head)), make("tbody", {}, ...body));
  return make("div", { className: "scroll", tabIndex: 0 }, table);
}

const MARKUP = new RegExp(
  [
    /\\([!-/:-@[-`{-~])/, // an escaped character
    /`([^`]+)`/,
    /\*\*((?:\\.|[^*\\])+)\*\*/,
    /\*((?:\\.|[^*\\])+)\*/,
    /!\[(?:\\.|[^\]\\])*\]\([^)]*\)/, // images are left out: the curve is on the page already
  ].map((part) => part.source).join("|"),
  "g",
);

function* renderInline(text) {
  let end = 0;
  for (const found of text.matchAll(MARKUP)) {
    const [all, sign, code, bold, italic] = found;
    yield text.slice(end, found.index);
    end = found.index + all.length;
    if (sign) yield sign;
    else if (code) yield make("code", {}, code);
    else if (bold) yield make("b", {}, ...renderInline(bold));
    else if (italic) yield make("i", {}, ...renderInline(italic));
  }
  yield text.slice(end);
}
