// The page of `linkdist serve`: what the model is, one node by a form, many by a file.
//
// Whatever a model or a file says comes into the page as text, never as markup. The order here:
// small parts, the start, the form, its result, the table, what is told about the model.

const FIRST = 10; // bars and rows shown before one asks for more
const LISTED = 100; // values of a categorical column that the service lists at most
const ENDINGS = [".csv", ".tsv", ".parquet", ".pq"];
const SILENT =
  "The service does not answer. It may have stopped, or be out of reach. " +
  "See that it runs, then try again.";

// Small parts -------------------------------------------------------------------------------------

const at = (id) => document.getElementById(id);

/** An element with properties (`aria-...` and the like as attributes) and children. */
function make(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [key, value] of Object.entries(properties)) {
    if (key in element) element[key] = value;
    else element.setAttribute(key, value);
  }
  element.append(...children);
  return element;
}

function show(element, isShown = true) {
  element.hidden = !isShown;
}

const whole = new Intl.NumberFormat("en").format;

function percent(share) {
  if (share > 0 && share < 0.0005) return "<0.1%";
  if (share < 1 && share >= 0.9995) return ">99.9%";
  return `${(100 * share).toFixed(1)}%`;
}

function bytes(size) {
  const units = ["bytes", "KB", "MB", "GB"];
  const step = Math.min(3, Math.floor(Math.log2(Math.max(size, 1)) / 10));
  return `${Number((size / 1024 ** step).toPrecision(3))} ${units[step]}`;
}

function plural(count, word) {
  return `${whole(count)} ${word}${count === 1 ? "" : "s"}`;
}

function listed(words, last) {
  if (words.length < 2) return words.join("");
  return `${words.slice(0, -1).join(", ")} ${last} ${words.at(-1)}`;
}

function titled(key) {
  const words = key.replaceAll("_", " ");
  return words.charAt(0).toUpperCase() + words.slice(1);
}

function moment(text) {
  const time = new Date(text);
  if (Number.isNaN(time.valueOf())) return text;
  return time.toLocaleString("en-GB", { dateStyle: "medium", timeStyle: "short" });
}

/** What went wrong, in words for a person, and a sentence for each column that is to blame. */
class Trouble extends Error {
  constructor(message, columns = {}) {
    super(message);
    this.columns = columns;
  }

  static from(status, body) {
    const wordless = `The service answered with status ${status} and no word. See its log.`;
    return new Trouble(body?.error ?? wordless, body?.columns ?? {});
  }
}

async function ask(path, options = {}) {
  let response;
  try {
    response = await fetch(path, options);
  } catch (error) {
    throw error.name === "AbortError" ? error : new Trouble(SILENT);
  }
  const body = await response.json().catch(() => null);
  if (!response.ok || body === null) throw Trouble.from(response.status, body);
  return body;
}

/** Horizontal bars of entries `[name, share of the full width, words]`; a long list is folded. */
function bars(entries) {
  const list = make("ul", { className: "bars" }, ...entries.map(barOf));
  if (entries.length <= FIRST) return [list];
  const more = make("button", { type: "button", className: "quiet" });
  const fold = (isFolded) => {
    for (const item of [...list.children].slice(FIRST)) show(item, !isFolded);
    more.textContent = isFolded ? `Show all ${whole(entries.length)}` : `Show the first ${FIRST}`;
    more.setAttribute("aria-expanded", !isFolded);
  };
  more.onclick = () => fold(more.getAttribute("aria-expanded") === "true");
  fold(true);
  return [list, more];
}

function barOf([name, share, words]) {
  const bar = make("span", { className: "bar" });
  bar.style.width = `${100 * share}%`;
  return make(
    "li",
    {},
    make("span", {}, name),
    make("span", { className: "number" }, words),
    make("span", { className: "track", "aria-hidden": "true" }, bar),
  );
}

// The start ---------------------------------------------------------------------------------------

async function start() {
  try {
    const model = await ask("/v1/model");
    showHeader(model);
    makeForm(model);
    if (model.columns) makeTable(model);
    show(at("tables"), model.columns !== null);
    showAbout(model);
    show(at("app"));
  } catch (error) {
    at("failed-reason").textContent = error.message;
    show(at("failed"));
  } finally {
    show(at("loading"), false);
  }
}

function showHeader(model) {
  const { name, label, classes, columns, features, refused, version, loaded } = model;
  document.title = `${name} · LinkDist`;
  at("name").textContent = name;
  const few = `which is ${listed(classes, "or")}`;
  const choice = classes.length <= 6 ? few : `one of ${whole(classes.length)}`;
  const basis = columns ? plural(columns.length, "column") : plural(features, "feature");
  at("what").append(
    "Tells a node’s ", make("b", {}, label ?? "class"), `, ${choice}, from ${basis}.`,
  );
  const tiles = tilesOf(model);
  at("tiles").append(...tiles);
  show(at("tiles"), tiles.length > 1);
  if (refused) {
    at("refused").textContent =
      `A newer model was refused (${moment(refused.at)}), and this one goes on serving. ` +
      refused.reason;
    show(at("refused"));
  }
  at("foot").append("Version ", make("code", {}, version), `, loaded ${moment(loaded)}.`);
}

function tilesOf({ scores, data, columns, features }) {
  const tile = (term, value, words) => {
    const told = make("dd", {}, make("b", {}, value), make("span", {}, words));
    return make("div", {}, make("dt", {}, term), told);
  };
  const count = scores["held-out nodes"];
  const held = count ? `of ${plural(count, "held-out node")}` : "of held-out nodes";
  const tiles = Object.entries(scores)
    .filter(([key, value]) => key.startsWith("accuracy") && typeof value === "number")
    .map(([key, value]) => tile(titled(key), percent(value), held));
  if (data.nodes) {
    const known = Object.values(data.labels ?? {}).reduce((sum, count) => sum + count, 0);
    const words = known ? `nodes, ${whole(known)} with a label` : "nodes";
    tiles.push(tile("Learnt from", whole(data.nodes), words));
  }
  const names = (columns ?? []).map((column) => column.name);
  const some = names.length > 4 ? [...names.slice(0, 3), "…"] : names;
  tiles.push(
    columns
      ? tile("Columns", whole(names.length), some.join(", "))
      : tile("Features", whole(features), "numbers a node"),
  );
  return tiles;
}

// The form ----------------------------------------------------------------------------------------

/**
 * A field of each kind: its input, its hint, a note on what is being typed (or nothing), and how it
 * is read. An empty field is null, a missing value; a wrong one throws a Trouble.
 */
const KINDS = {
  numeric: {
    input: () => make("input", { type: "number", step: "any" }),
    hint: ({ example }) =>
      Number.isFinite(example) ? `A number, such as ${Number(example.toPrecision(4))}` : "A number",
    note: () => "",
    read(input) {
      if (input.validity.badInput) {
        throw new Trouble("This is no number. Write one such as -3 or 0.25, or leave it empty.");
      }
      return input.value === "" ? null : Number(input.value);
    },
  },
  categorical: {
    input: () => make("input", { type: "text" }),
    hint({ values }) {
      const all = `One of ${listed(values, "or")}`;
      const some = values.slice(0, 2).join(", ");
      return all.length <= 60 ? all : `One of ${values.length} values, such as ${some}`;
    },
    note(input, { values }) {
      const text = input.value.trim();
      const isKnown = values.length >= LISTED || values.some((known) => known.startsWith(text));
      return isKnown ? "" : "The model has not met this value; it will count as missing.";
    },
    read: (input) => input.value.trim() || null,
  },
  text: {
    input: () => make("textarea", { rows: 2 }),
    hint: () => "Text",
    note: () => "",
    read: (input) => input.value.trim() || null,
  },
  vector: {
    input: () => make("input", { type: "text" }),
    hint: ({ width }) => `${plural(width, "number")}, separated by commas`,
    note: (input, { width }) => `${entriesOf(input.value).length} of ${plural(width, "number")}`,
    read: (input, { width }) => readNumbers(input.value, width),
  },
};
KINDS.features = {
  ...KINDS.vector,
  input: () => make("textarea", { rows: 8 }),
  hint: ({ width }) => `${plural(width, "number")}, separated by commas, spaces or lines`,
};

function entriesOf(text) {
  return text.replace(/^\s*\[|\]\s*$/g, "").split(/[\s,;]+/).filter(Boolean);
}

function readNumbers(text, width) {
  const entries = entriesOf(text);
  const wrong = entries.findIndex((entry) => !Number.isFinite(Number(entry)));
  if (wrong >= 0) {
    const found = `Entry ${wrong + 1} is “${entries[wrong]}”, which is no number.`;
    throw new Trouble(`${found} Write it as one, such as -3 or 0.25.`);
  }
  if (!entries.length) return null;
  const more = width - entries.length;
  if (more) {
    const found = plural(entries.length, "number");
    const advice = more > 0 ? `Add ${whole(more)}` : `Take ${whole(-more)} away`;
    throw new Trouble(`Found ${found}, and there must be ${whole(width)}. ${advice}.`);
  }
  return entries.map(Number);
}

function makeField(column, index) {
  const kind = KINDS[column.kind] ?? KINDS.text;
  const id = `field-${index}`;
  const input = kind.input();
  const hint = make("span", { className: "hint", id: `${id}-hint` }, kind.hint(column));
  const error = make("p", { className: "error", id: `${id}-error`, hidden: true });
  Object.assign(input, { id, name: column.name, autocomplete: "off" });
  input.setAttribute("aria-describedby", `${hint.id} ${error.id}`);
  const parts = column.name.split(/(?<=_)/).flatMap((part) => [part, make("wbr")]);
  const label = make("label", { htmlFor: id }, ...parts);
  const box = make("div", { className: "field" }, label, hint, input, error);
  box.classList.toggle("wide", input.localName === "textarea" || column.kind === "vector");
  if (column.values?.length) {
    const options = column.values.map((value) => make("option", { value }));
    box.append(make("datalist", { id: `${id}-values` }, ...options));
    input.setAttribute("list", `${id}-values`);
  }

  const field = {
    column,
    input,
    box,
    read: () => kind.read(input, column),
    blame(words) {
      error.textContent = words;
      show(error, words !== "");
      if (words) input.setAttribute("aria-invalid", "true");
      else input.removeAttribute("aria-invalid");
    },
    clear() {
      field.blame("");
      hint.textContent = kind.hint(column);
    },
  };
  input.addEventListener("input", () => {
    field.blame("");
    hint.textContent = (input.value && kind.note(input, column)) || kind.hint(column);
  });
  return field;
}

function makeForm(model) {
  const features = { name: "Features", kind: "features", width: model.features };
  const fields = (model.columns ?? [features]).map(makeField);
  const result = at("result");
  let running = null;
  at("form-hint").textContent = model.columns
    ? "Fill in what you know. An empty field counts as missing."
    : "Paste the node’s features in the order of training.";
  at("fields").append(...fields.map((field) => field.box));
  at("fields").classList.toggle("many", fields.length > 5);
  showNoResult(model);

  const classify = async (values) => {
    const named = fields.map((field, index) => [field.column.name, values[index]]);
    const answer = await ask("/v1/predict", {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify({ rows: [model.columns ? Object.fromEntries(named) : values[0]] }),
      signal: running.signal,
    });
    show(at("replaced"), answer.version !== model.version);
    showResult(model, answer.predictions[0]);
  };
  at("form").onsubmit = async (event) => {
    event.preventDefault();
    if (running) return;
    clearFormError();
    running = new AbortController();
    setBusy(true);
    try {
      await classify(readFields(fields));
    } catch (error) {
      if (error.name !== "AbortError") blame(fields, error);
    } finally {
      running = null;
      setBusy(false);
    }
  };
  at("form").onreset = () => {
    running?.abort();
    clearFormError();
    for (const field of fields) field.clear();
    showNoResult(model);
    fields[0]?.input.focus();
  };
  at("form").oninput = () => {
    clearFormError();
    if (result.dataset.state !== "shown") return;
    result.dataset.state = "stale";
    at("result-words").textContent = "For the values before your change.";
  };
}

/** The values of all fields; one Trouble names all that are wrong. */
function readFields(fields) {
  const wrong = {};
  const values = fields.map((field) => {
    field.blame("");
    try {
      return field.read();
    } catch (error) {
      wrong[field.column.name] = error.message;
      return null;
    }
  });
  if (Object.keys(wrong).length) throw new Trouble("Some fields are wrong.", wrong);
  if (values.every((value) => value === null)) {
    throw new Trouble("Nothing is filled in yet. Fill in one field at least.");
  }
  return values;
}

/** Show an error at the fields that it names, and at the form where it names none or others. */
function blame(fields, error) {
  const columns = error.columns ?? {};
  const named = fields.filter((field) => Object.hasOwn(columns, field.column.name));
  for (const field of named) field.blame(columns[field.column.name]);
  if (!named.length || named.length < Object.keys(columns).length) {
    show(at("form-error"));
    at("form-error").textContent = error.message;
  }
  (named[0]?.input ?? at("form-error")).focus();
}

function clearFormError() {
  at("form-error").textContent = "";
  show(at("form-error"), false);
}

function setBusy(isBusy) {
  const button = at("classify");
  button.classList.toggle("busy", isBusy);
  button.setAttribute("aria-disabled", isBusy); // `disabled` would lose the focus
  button.textContent = isBusy ? "Classifying …" : "Classify";
  at("result").setAttribute("aria-busy", isBusy);
}

// The result --------------------------------------------------------------------------------------

function showNoResult({ classes }) {
  at("result").dataset.state = "empty";
  at("verdict-of").textContent = "Result";
  at("verdict").textContent = "Nothing yet";
  at("result-words").textContent = "How sure the model is of each class will be here.";
  at("result-said").textContent = "";
  at("bars").replaceChildren(...bars(classes.map((name) => [name, 0, ""])));
}

function showResult(model, { label, confidence, probabilities, mode }) {
  const asked = model.label ?? "class";
  const sorted = Object.entries(probabilities).sort(([, a], [, b]) => b - a);
  at("result").dataset.state = "shown";
  at("verdict-of").textContent = asked;
  at("verdict").replaceChildren(label, make("span", { className: "number" }, percent(confidence)));
  at("result-words").textContent =
    mode === "links" ? "From the node and its links." : "From the node’s own features.";
  at("bars").replaceChildren(...bars(sorted.map(([name, share]) => [name, share, percent(share)])));
  const next = sorted.slice(1, 3).map(([name, share]) => `${name} ${percent(share)}`);
  at("result-said").textContent =
    `${asked}: ${label}, confidence ${percent(confidence)}. Next: ${next.join(", ") || "none"}.`;
  at("verdict").parentElement.scrollIntoView({ block: "nearest" });
}

// The table ---------------------------------------------------------------------------------------

function makeTable(model) {
  const input = at("file");
  let request = null;
  let address = null;
  at("file-hint").textContent = tableHint(model);

  const turn = (state) => {
    at("table").dataset.state = state;
    show(at("drop"), state !== "running");
    show(at("running"), state === "running");
    show(at("done"), state === "done");
    show(at("file-error"), state === "failed");
    at("file-error").replaceChildren();
    if (state === "failed") input.setAttribute("aria-invalid", "true");
    else input.removeAttribute("aria-invalid");
  };
  const fail = ({ message, columns }) => {
    request = null;
    turn("failed");
    const more = Object.values(columns).filter((words) => !message.includes(words));
    at("file-error").append(make("p", {}, message));
    if (more.length) {
      at("file-error").append(make("ul", {}, ...more.map((words) => make("li", {}, words))));
    }
    input.focus();
  };
  const finish = (table, count) => {
    request = null;
    URL.revokeObjectURL(address);
    address = URL.createObjectURL(new Blob(table.texts, { type: "text/csv" }));
    at("download").href = address;
    turn("done");
    showTable(model, table, count);
    at("done-words").focus();
  };
  const take = (file) => {
    if (!file || request) return;
    const unfit = whyUnfit(file, model.limits);
    if (unfit) {
      fail(new Trouble(unfit));
      return;
    }
    turn("running");
    at("running-name").textContent = file.name;
    at("running-size").textContent = bytes(file.size);
    at("table-said").textContent = `Uploading ${file.name}`;
    at("cancel").focus();
    request = sendTable(model, file, finish, fail);
  };

  at("cancel").onclick = () => {
    request?.abort();
    request = null;
    turn("idle");
    at("table-said").textContent = "Cancelled. Nothing was kept.";
    input.focus();
  };
  input.onchange = () => {
    take(input.files[0]);
    input.value = ""; // so that the same file can be chosen again, mended
  };
  acceptDrops(take);
}

function tableHint({ columns, id, limits }) {
  const names = columns.map((column) => column.name);
  const needed = names.length > 8 ? [`the model’s ${names.length} columns`] : names;
  const all = listed(id ? [`${id} (the id)`, ...needed] : needed, "and");
  return `With ${all}. Up to ${bytes(limits.file_bytes)}.`;
}

function whyUnfit({ name, size }, limits) {
  if (!ENDINGS.some((ending) => name.toLowerCase().endsWith(ending))) {
    const rule = `Choose a file that ends in ${listed(ENDINGS, "or")}.`;
    return `${name} is neither CSV nor Parquet by its name. ${rule}`;
  }
  if (size === 0) return `${name} is empty. Choose a file with a header and a row at least.`;
  if (size > limits.file_bytes) {
    return (
      `${name} has ${bytes(size)}, and this service takes up to ${bytes(limits.file_bytes)}. ` +
      "Split it, or use linkdist predict on the command line."
    );
  }
  return "";
}

/** A file dropped anywhere is taken: beside the drop area a browser would leave the page for it. */
function acceptDrops(take) {
  let depth = 0;
  const light = (change) => {
    depth = Math.max(0, depth + change);
    at("drop").classList.toggle("lit", depth > 0);
  };
  const onFiles = (kind, act) =>
    window.addEventListener(kind, (event) => {
      if (!event.dataTransfer?.types.includes("Files")) return;
      event.preventDefault();
      act(event.dataTransfer.files[0]);
    });
  onFiles("dragenter", () => light(1));
  onFiles("dragleave", () => light(-1));
  onFiles("dragover", () => {});
  onFiles("drop", (file) => {
    light(-depth);
    take(file);
  });
}

/** Send a file and follow its predictions; XMLHttpRequest, as only it tells how an upload goes. */
function sendTable(model, file, finish, fail) {
  const request = new XMLHttpRequest();
  const table = new Predictions(model.classes);
  let total = null;
  let read = 0;
  let isOver = false;

  const end = (call, ...values) => {
    if (!isOver) call(...values);
    isOver = true;
  };
  const tell = (words, share) => {
    at("running-words").textContent = words;
    if (share === null) at("progress").removeAttribute("value");
    else at("progress").value = share;
  };
  const hear = (line) => {
    if (line.error !== undefined) end(fail, Trouble.from(request.status, line));
    if (line.total !== undefined) total = line.total;
    if (line.csv !== undefined) table.add(line.csv);
    if (line.done !== undefined) {
      const words = total ? `${whole(line.done)} of ${whole(total)}` : whole(line.done);
      tell(`Classified ${words} rows`, total ? line.done / total : null);
    }
    if (line.end !== undefined) end(finish, table, line.end);
  };
  const follow = () => {
    const text = request.responseText;
    for (let stop; !isOver && (stop = text.indexOf("\n", read)) >= 0; read = stop + 1) {
      if (stop > read) hear(JSON.parse(text.slice(read, stop)));
    }
  };

  request.upload.onprogress = ({ loaded, total: size }) =>
    tell(`Uploading, ${percent(loaded / size)}`, loaded / size);
  request.upload.onload = () => {
    tell("Reading the file …", null);
    at("table-said").textContent = `Classifying ${file.name}`;
  };
  request.onprogress = () => {
    if (request.status === 200) follow();
  };
  request.onload = () => {
    const { status, responseText: text } = request;
    if (status === 200) follow();
    else end(fail, Trouble.from(status, parsed(text)));
    end(fail, new Trouble(`The answer broke off after ${plural(table.count, "row")}. Try again.`));
  };
  request.onerror = () => end(fail, new Trouble(SILENT));
  request.onabort = () => end(() => {});
  request.open("POST", `/v1/predict/table?name=${encodeURIComponent(file.name)}`);
  request.setRequestHeader("Accept", "application/x-ndjson");
  tell("Uploading", 0);
  request.send(file);
  return request;
}

function parsed(text) {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}

/** The predictions that have come: their text, how many there are of each class, the first rows. */
class Predictions {
  texts = [];
  head = null;
  first = [];
  count = 0;

  constructor(classes) {
    this.counts = new Map(classes.map((name) => [name, 0]));
    this.tail = classes.length + 2; // label, confidence and a probability a class end each row
  }

  add(text) {
    this.texts.push(text);
    for (const row of csvRows(text)) {
      if (this.head === null) this.head = row;
      else this.addRow(row);
    }
  }

  addRow(row) {
    const label = row.at(-this.tail);
    this.counts.set(label, (this.counts.get(label) ?? 0) + 1);
    this.count += 1;
    if (this.first.length < FIRST) this.first.push(row);
  }
}

function* csvRows(text) {
  const cell = /(?:"((?:[^"]|"")*)"|([^,\r\n]*))(,|\r?\n|$)/y;
  let row = [];
  while (cell.lastIndex < text.length) {
    const [, quoted, plain, stop] = cell.exec(text) ?? [];
    if (stop === undefined) return;
    row.push(quoted === undefined ? plain : quoted.replaceAll('""', '"'));
    if (stop === ",") continue;
    yield row;
    row = [];
  }
}

function showTable(model, table, count) {
  at("done-words").textContent = `${plural(count, "row")} classified`;
  at("counts").replaceChildren(...countBars([...table.counts].sort(([, a], [, b]) => b - a)));

  const hasId = table.head?.length > table.tail;
  const names = [hasId ? table.head[0] : "row", model.label ?? "label"];
  const head = make(
    "tr",
    {},
    ...names.map((name) => make("th", { scope: "col" }, name)),
    make("th", { scope: "col", className: "number" }, "confidence"),
  );
  const rows = table.first.map((row, index) => {
    const [label, confidence] = row.slice(-table.tail);
    return make(
      "tr",
      {},
      make("th", { scope: "row" }, hasId ? row[0] : whole(index + 1)),
      make("td", {}, label),
      make("td", { className: "number" }, percent(Number(confidence))),
    );
  });
  at("preview-title").textContent = count > FIRST ? `The first ${FIRST} rows` : "The rows";
  at("preview").replaceChildren(make("thead", {}, head), make("tbody", {}, ...rows));
}

/** Bars of counts: the largest has the full width, and each has its share of all. */
function countBars(entries) {
  const counts = entries.map(([, count]) => count);
  const most = Math.max(1, ...counts);
  const all = Math.max(1, counts.reduce((sum, count) => sum + count, 0));
  return bars(entries.map(([name, count]) =>
    [name, count / most, `${whole(count)} (${percent(count / all)})`]));
}

// What is told about the model --------------------------------------------------------------------

function showAbout({ card, data, training, replicas, has_curve: hasCurve, has_report: hasReport }) {
  if (hasCurve) {
    const told = card?.match(/!\[((?:\\.|[^\]\\])*)\]\(curve\.svg\)/)?.[1].replace(/\\(.)/g, "$1");
    at("curve-image").alt = told ?? "Held-out accuracy in training.";
    at("curve-image").src = "/v1/model/curve.svg";
    show(at("curve"));
  }
  const hasGroups = showGroups(data);
  const hasTraining = showPairs("training", replicas > 1 ? { ...training, replicas } : training);
  const hasData = showPairs("data", data);
  show(at("drawn"), hasCurve || hasGroups);
  show(at("facts"), hasCurve || hasGroups || hasTraining || hasData);
  show(at("report"), hasReport);
  if (card) {
    at("card-text").append(...markdown(card));
    show(at("card"));
  }
}

/** Groups of counts, such as how many nodes had each label, as bars; whether there were any. */
function showGroups(values) {
  const groups = Object.entries(values).filter(([, value]) => value && typeof value === "object");
  for (const [key, group] of groups) {
    at("groups").append(make("h3", {}, titled(key)), ...countBars(Object.entries(group)));
  }
  return groups.length > 0;
}

/** Numbers and words as pairs; whether there were any. */
function showPairs(id, values) {
  const list = make("dl", { className: "pairs" });
  for (const [key, value] of Object.entries(values)) {
    if (value === null || typeof value === "object") continue;
    const words = typeof value === "number" ? whole(value) : String(value);
    list.append(make("dt", {}, titled(key)), make("dd", { className: "number" }, words));
  }
  at(id).append(list);
  show(at(id), list.childElementCount > 0);
  return list.childElementCount > 0;
}

/** Markdown's headings, paragraphs, lists, tables and code as elements; all else stays text. */
function markdown(text) {
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
      blocks.push(make(`h${Math.min(6, title[1].length + 2)}`, {}, ...inline(title[2])));
    } else if (lines[0].startsWith("|")) {
      blocks.push(markdownTable(take(/^\|/)));
    } else if (/^(-|\d+\.) /.test(lines[0])) {
      blocks.push(markdownList(take(/^(-|\d+\.) |^\s+\S/)));
    } else if (lines[0].trim()) {
      const words = [lines.shift(), ...take(/^(?!```|#{1,6} |\||- )\s*\S/)].join(" ");
      blocks.push(make("p", {}, ...inline(words)));
    } else {
      lines.shift();
    }
  }
  return blocks.filter((block) => block.textContent.trim());
}

function markdownList(lines) {
  const items = [];
  for (const line of lines) {
    if (/^\s/.test(line)) items.push(`${items.pop()} ${line.trim()}`);
    else items.push(line.replace(/^\S+ +/, ""));
  }
  const tag = /^\d/.test(lines[0]) ? "ol" : "ul";
  return make(tag, {}, ...items.map((item) => make("li", {}, ...inline(item))));
}

function markdownTable(lines) {
  const [head, rule = [], ...rows] = lines.map((line) =>
    [...line.slice(1).matchAll(/((?:\\.|[^|\\])*)\|/g)].map(([, cell]) => cell.trim()));
  const row = (tag, texts) =>
    make("tr", {}, ...texts.map((text, index) =>
      make(tag, { className: rule[index]?.endsWith(":") ? "number" : "" }, ...inline(text))));
  const body = rows.map((texts) => row("td", texts));
  const table = make("table", {}, make("thead", {}, row("th", head)), make("tbody", {}, ...body));
  return make("div", { className: "scroll", tabIndex: 0 }, table);
}

const MARK = new RegExp(
  [
    /\\([!-/:-@[-`{-~])/, // an escaped sign
    /`([^`]+)`/,
    /\*\*((?:\\.|[^*\\])+)\*\*/,
    /\*((?:\\.|[^*\\])+)\*/,
    /!\[(?:\\.|[^\]\\])*\]\([^)]*\)/, // a picture is left out: the curve is on the page already
  ].map((part) => part.source).join("|"),
  "g",
);

function* inline(text) {
  let end = 0;
  for (const found of text.matchAll(MARK)) {
    const [all, sign, code, bold, italic] = found;
    yield text.slice(end, found.index);
    end = found.index + all.length;
    if (sign) yield sign;
    else if (code) yield make("code", {}, code);
    else if (bold) yield make("b", {}, ...inline(bold));
    else if (italic) yield make("i", {}, ...inline(italic));
  }
  yield text.slice(end);
}

for (const id of ["retry", "reload"]) at(id).onclick = () => location.reload();
start();
