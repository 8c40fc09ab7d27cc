// The reference of the service, made from its OpenAPI document.

import { byId, make, show } from "./dom.js";
import { renderMarkdown } from "./markdown.js";
import { addresses, openapi } from "./predict.js";
import { makeFields, makeGrid, typeOf } from "./schema.js";
import { makeTry } from "./try.js";

const METHODS = ["get", "post", "put", "patch", "delete"];
const GROUPS = { predict: "Predict", model: "Describe the model", health: "Monitor the service" };

async function start() {
  try {
    const described = await openapi();
    showHeader(described);
    const groups = Map.groupBy(operationsOf(described), ({ tag }) => tag);
    for (const [tag, operations] of groups) showGroup(GROUPS[tag] ?? tag, operations);
    showSchemas(described.components?.schemas ?? {});
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

function showGroup(title, operations) {
  const items = operations.map(({ id, method, path, summary }) => make("li", {},
    make("a", { href: `#${id}` }, makeBadge(method), make("code", {}, path)),
    make("span", { className: "hint" }, summary)));
  byId("contents").append(
    make("h2", {}, title), make("ul", { className: "operations" }, ...items));
  const id = `group-${operations[0].tag}`;
  byId("operations").append(make("section", { "aria-labelledby": id },
    make("h2", { id }, title), ...operations.map(makeOperation)));
}

const makeBadge = (method) =>
  make("span", { className: "badge", "data-method": method }, method.toUpperCase());

function makeOperation(operation) {
  const { id, method, path, summary, description = "", parameters = [], requestBody } = operation;
  const title = make("h3", { id }, makeBadge(method), make("code", {}, path));
  const text = make("div", { className: "prose" }, ...renderMarkdown(description));
  const left = [title, make("p", { className: "summary" }, `${summary}.`), text];
  if (parameters.length) left.push(make("h4", {}, "Parameters"), makeParameters(parameters));
  if (requestBody) left.push(make("h4", {}, "Body"), ...makeBodies(requestBody));
  left.push(make("h4", {}, "Answers"), makeAnswers(operation.responses));
  return make("article", { className: "card operation", "aria-labelledby": id },
    make("div", { className: "padded" }, ...left), makeTry(operation));
}

const makeParameters = (parameters) =>
  makeGrid(["Name", "Type", "Meaning"], parameters.map(({ name, schema, description }) =>
    [[make("code", {}, name)], typeOf(schema), [description ?? ""]]));

function makeBodies({ content }) {
  return Object.entries(content).flatMap(([kind, { schema }]) => {
    const line = make("p", {}, make("code", {}, kind), ": ", ...typeOf(schema));
    return schema.properties ? [line, makeFields(schema)] : [line];
  });
}

function makeAnswers(responses) {
  return makeGrid(["Status", "Meaning", "Body"], Object.entries(responses).map(
    ([status, { description, content = {} }]) => {
      const bodies = Object.entries(content).flatMap(([kind, { schema }]) =>
        [make("br"), ...(schema?.$ref ? typeOf(schema) : [make("code", {}, kind)])]);
      const when = description === "Successful Response" ? "The answer." : description;
      return [[make("code", {}, status)], [when], bodies.slice(1)];
    }));
}

function showSchemas(schemas) {
  const entries = Object.entries(schemas).sort(([a], [b]) => a.localeCompare(b));
  const parts = entries.map(([name, schema]) => {
    const id = `schema-${name}`;
    return make("article", { className: "card padded schema", "aria-labelledby": id },
      make("h3", { id }, make("code", {}, name)),
      make("p", {}, schema.description ?? ""),
      schema.properties ? makeFields(schema) : make("p", {}, ...typeOf(schema)));
  });
  byId("contents").append(make("p", {}, make("a", { href: "#schemas" }, "Schemas")));
  byId("operations").append(make("section", { "aria-labelledby": "schemas" },
    make("h2", { id: "schemas" }, "Schemas"), ...parts));
}

start();
