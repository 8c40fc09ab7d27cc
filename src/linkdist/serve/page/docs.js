// The reference of the service, made from its OpenAPI document.

import { byId, make, show } from "./dom.js";
import { renderMarkdown } from "./markdown.js";
import { addresses, openapi } from "./predict.js";
import { makeFields, makeGrid, namesIn, typeOf } from "./schema.js";
import { makeTry } from "./try.js";

const METHODS = ["get", "post", "put", "patch", "delete"];
const GROUPS = { predict: "Predict", model: "Describe the model", health: "Monitor the service" };

async function start() {
  try {
    const described = await openapi();
    showHeader(described);
    const operations = operationsOf(described);
    const schemas = { ...described.components?.schemas };
    for (const tag of new Set(operations.map((one) => one.tag))) {
      showGroup(GROUPS[tag] ?? tag, operations.filter((one) => one.tag === tag), schemas);
    }
    showSchemas(schemas);
    show(byId("app"));
    // The browser looked for the target of the address before it was there.
    if (location.hash) document.getElementById(location.hash.slice(1))?.scrollIntoView();
  } catch (error) {
    byId("failed-reason").textContent = error.message;
    show(byId("failed"));
  }
}

function operationsOf({ paths, security = [] }) {
  return Object.entries(paths).flatMap(([path, item]) =>
    METHODS.filter((method) => item[method]).map((method) => ({
      ...item[method],
      method,
      path,
      tag: item[method].tags?.[0] ?? "other",
      id: `${method}${path.replaceAll(/\W+/g, "-")}`,
      needsToken: (item[method].security ?? security).length > 0,
    })));
}

function showHeader({ info }) {
  document.title = `HTTP reference · ${info.title}`;
  byId("name").textContent = info.title;
  byId("links").append(
    make("a", { href: "." }, "The page of the model"),
    make("a", { href: addresses.openapi }, "OpenAPI document"),
  );
  byId("foot").textContent = `LinkDist ${info.version}`;
}

function showGroup(title, operations, schemas) {
  const items = operations.map(({ id, method, path, summary }) => make("li", {},
    make("a", { href: `#${id}` }, makeBadge(method), make("code", {}, path)),
    make("span", { className: "hint" }, summary)));
  byId("contents").append(
    make("h2", {}, title), make("ul", { className: "operations" }, ...items));
  const id = `group-${operations[0].tag}`;
  const parts = operations.map((operation) => makeOperation(operation, schemas));
  byId("operations").append(
    make("section", { "aria-labelledby": id }, make("h2", { id }, title), ...parts));
}

const makeBadge = (method) =>
  make("span", { className: "badge", "data-method": method }, method.toUpperCase());

function makeOperation(operation, schemas) {
  const { id, method, path, summary, description = "", parameters = [], requestBody } = operation;
  const title = make("h3", { id }, makeBadge(method), make("code", {}, path));
  const text = make("div", { className: "prose" }, ...renderMarkdown(description));
  const parts = [title, make("p", { className: "summary" }, `${summary}.`), text];
  if (parameters.length) parts.push(make("h4", {}, "Parameters"), makeParameters(parameters));
  if (requestBody) parts.push(make("h4", {}, "Body"), ...makeBodies(requestBody, schemas));
  parts.push(make("h4", {}, "Answers"), ...makeAnswers(operation.responses));
  return make("article", { className: "card operation", "aria-labelledby": id },
    make("div", { className: "padded" }, ...parts), makeTry(operation));
}

const makeParameters = (parameters) =>
  makeGrid(["Name", "Type", "Meaning"], parameters.map(({ name, schema, description }) =>
    [[make("code", {}, name)], typeOf(schema), [description ?? ""]]));

/** What a request contains: its content types, and the schemas that they name. */
function makeBodies({ content }, schemas) {
  return Object.entries(content).flatMap(([kind, { schema }]) => [
    make("p", {}, make("code", {}, kind), ": ", ...typeOf(schema)),
    ...(schema.properties ? [makeFields(schema)] : []),
    ...namesIn(schema, schemas).map((name) => makeSchema(name, schemas, "h5")),
  ]);
}

function makeAnswers(responses) {
  const rows = Object.entries(responses).map(([status, { description, content = {} }]) => {
    const bodies = Object.entries(content).flatMap(([kind, { schema }]) =>
      [make("br"), ...(schema?.$ref ? typeOf(schema) : [make("code", {}, kind)])]);
    const when = description === "Successful Response" ? "The request was answered." : description;
    return [status, [[make("code", {}, status)], bodies.slice(1), [when]]];
  });
  const head = ["Status", "Body", "Meaning"];
  const [good, bad] = [true, false].map((is) =>
    rows.filter(([status]) => status.startsWith("2") === is).map(([, cells]) => cells));
  const refusals = make("details", {}, make("summary", {}, "Refusals"), makeGrid(head, bad));
  return [makeGrid(head, good), ...(bad.length ? [refusals] : [])];
}

/** A schema with its fields. Each is shown once, where it is used first, so it is taken out. */
function makeSchema(name, schemas, title) {
  const { [name]: schema } = schemas;
  const id = `schema-${name}`;
  delete schemas[name];
  return make("section", { className: "schema", "aria-labelledby": id },
    make(title, { id }, make("code", {}, name)),
    make("p", {}, schema.description ?? ""),
    schema.properties ? makeFields(schema) : make("p", {}, ...typeOf(schema)));
}

function showSchemas(schemas) {
  const names = Object.keys(schemas).sort();
  const parts = names.map((name) => makeSchema(name, schemas, "h3"));
  byId("contents").append(make("p", {}, make("a", { href: "#schemas" }, "Schemas of the answers")));
  byId("operations").append(make("section", { "aria-labelledby": "schemas" },
    make("h2", { id: "schemas" }, "Schemas of the answers"),
    make("div", { className: "card padded" }, ...parts)));
}

start();
