// An example request that can be changed and sent, its answer, and the same request for curl.

import { formatBytes, formatNumber, make, show } from "./dom.js";
import { sendRequest } from "./predict.js";

const MOST = 20_000; // characters of an answer that are shown

let count = 0;

/** A label and its input below each other. */
function makeInput(text, input) {
  input.id = `try-${(count += 1)}`;
  return make("div", { className: "field" }, make("label", { htmlFor: input.id }, text), input);
}

const quote = (text) => `'${text.replaceAll("'", "'\\''")}'`;

/** The inputs of a body of text, such as JSON. */
function makeTextBody(kind, { example = "" }) {
  const text = typeof example === "string" ? example : formatJson(example);
  const input = make("textarea", { className: "code", spellcheck: false, value: text });
  const type = ["-H", quote(`Content-Type: ${kind}`)];
  return {
    kind,
    fields: [makeInput("Body", input)],
    read: () => ({ headers: { "Content-Type": kind }, body: input.value }),
    curl: () => [...type, "--data-binary", quote(inOneLine(input.value, kind))],
  };
}

function inOneLine(text, kind) {
  if (kind !== "application/json") return text;
  try {
    return JSON.stringify(JSON.parse(text));
  } catch {
    return text; // it is not finished, or a test of what the service says
  }
}

/** The inputs of a form of files. */
function makeFileBody(kind, { schema }) {
  const inputs = Object.entries(schema.properties).map(([name, { type }]) =>
    make("input", { type: "file", name, multiple: type === "array" }));
  const entries = () => inputs.flatMap(({ name, files }) => [...files].map((file) => [name, file]));
  return {
    kind,
    fields: inputs.map((input) => makeInput(input.name, input)),
    read() {
      const body = new FormData();
      for (const [name, file] of entries()) body.append(name, file);
      return { headers: {}, body };
    },
    curl() {
      const chosen = entries().map(([name, file]) => [name, file.name]);
      const some = chosen.length ? chosen : [["file", "nodes.csv"]];
      return some.flatMap(([name, file]) => ["-F", quote(`${name}=@${file}`)]);
    },
  };
}

const makeBody = ([kind, content]) =>
  kind === "multipart/form-data" ? makeFileBody(kind, content) : makeTextBody(kind, content);

/** JSON with an entry in each line, except for lists of numbers. */
function formatJson(value) {
  const text = JSON.stringify(value, null, 2);
  const inLine = (list) => list.replaceAll(/(?<=\[)\s+|\s+(?=\])/g, "").replaceAll(/\n\s*/g, " ");
  return text.replaceAll(/\[[^[\]{}"]*\]/g, inLine);
}

/** Make the part of an operation that sends a request. */
export function makeTry({ method, path, parameters = [], requestBody, needsToken }) {
  const bodies = Object.entries(requestBody?.content ?? {}).map(makeBody);
  const query = parameters.map(({ name, example = "" }) =>
    make("input", { type: "text", name, value: example, autocomplete: "off" }));
  const choice = make("select", {}, ...bodies.map(({ kind }) => make("option", {}, kind)));
  const line = make("pre", { className: "line", tabIndex: 0 });
  const button = make("button", { type: "submit", className: "main" }, "Send");
  const answer = makeAnswer();
  const form = make("form", { "aria-label": `Try ${method.toUpperCase()} ${path}` },
    ...(bodies.length > 1 ? [makeInput("Content type", choice)] : []),
    ...query.map((input) => makeInput(input.name, input)),
    ...bodies.map(({ fields }) => make("div", {}, ...fields)),
    make("div", { className: "row" }, button), line, ...answer.elements);

  const body = () => bodies[choice.selectedIndex] ?? bodies[0];
  const address = () => {
    const url = new URL(path.slice(1), document.baseURI);
    for (const { name, value } of query) if (value) url.searchParams.set(name, value);
    return url;
  };
  const refresh = () => {
    for (const one of bodies) for (const field of one.fields) show(field, one === body());
    const token = needsToken ? ["-H", '"Authorization: Bearer $TOKEN"'] : [];
    const words = ["curl", quote(address().href), ...token, ...(body()?.curl() ?? [])];
    line.textContent = words.join(" ");
  };
  form.oninput = refresh;
  form.onsubmit = (event) => {
    event.preventDefault();
    answer.ask(() => sendRequest(address(), { method: method.toUpperCase(), ...body()?.read() }));
  };
  refresh();
  return make("div", { className: "try" }, form);
}

/** The place where an answer is shown. */
function makeAnswer() {
  const words = make("p", { className: "hint", role: "status" });
  const text = make("pre", { className: "answer", tabIndex: 0, hidden: true });
  let asked = 0;
  const ask = async (question) => {
    const own = (asked += 1);
    const started = performance.now();
    words.textContent = "Waiting for the answer …";
    try {
      const { status, kind, text: content } = await question();
      if (own !== asked) return;
      const took = `${formatNumber(Math.round(performance.now() - started))} ms`;
      words.textContent = [`Status ${status}`, kind, formatBytes(content.length), took].join(", ");
      showText(text, content, kind);
    } catch (error) {
      words.textContent = error.message;
      show(text, false);
    }
  };
  return { elements: [words, text], ask };
}

function showText(element, content, kind) {
  const isJson = /json$/.test(kind) && !kind.includes("ndjson");
  const whole = isJson ? formatJson(JSON.parse(content)) : content;
  const rest = whole.length > MOST ? `\n… (the first ${formatNumber(MOST)} characters)` : "";
  element.textContent = whole.slice(0, MOST) + rest;
  show(element, whole !== "");
}
