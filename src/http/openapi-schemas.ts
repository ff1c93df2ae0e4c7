/**
 * Tidies the generated document for people and client generators: only components that are used,
 * under the names that the routes gave them; answers may grow; nothing that does not work yet.
 */

type Json = null | boolean | number | string | Json[] | JsonObject;
type JsonObject = { [name: string]: Json };

const REF = '#/components/schemas/';
/** The generator makes `X` for what comes out and `XInput` for what goes in. */
const INPUT = /Input$/;

type OpenApi = JsonObject & { paths: JsonObject; components: { schemas: JsonObject } };

export function tidyOpenApi(document: OpenApi): object {
  const { schemas } = document.components;
  const used = usedNames(document.paths, schemas);
  const kept = used.map((name): [string, Json] => [
    shortName(name, used),
    tidySchema(schemas[name] ?? {}, { isInput: INPUT.test(name) }),
  ]);
  const tidied = {
    ...document,
    paths: tidyPaths(document.paths),
    components: { ...document.components, schemas: Object.fromEntries(kept) },
  };
  return JSON.parse(withShortNames(JSON.stringify(tidied), used)) as object;
}

/** Every component that the paths lead to, in the order of the alphabet. */
function usedNames(paths: JsonObject, schemas: JsonObject): string[] {
  const used = new Set<string>();
  const follow = (from: Json): void => {
    for (const [, name = ''] of JSON.stringify(from).matchAll(/"#\/components\/schemas\/(\w+)"/g)) {
      if (used.has(name)) continue;
      used.add(name);
      follow(schemas[name] ?? {});
    }
  };
  follow(paths);
  return [...used].toSorted();
}

/** `NewEmailInput` is simply `NewEmail` when nothing of that name comes out. */
function shortName(name: string, used: readonly string[]): string {
  const short = name.replace(INPUT, '');
  return used.includes(short) ? name : short;
}

function withShortNames(text: string, used: readonly string[]): string {
  return used.reduce(
    (result, name) => result.replaceAll(`"${REF}${name}"`, `"${REF}${shortName(name, used)}"`),
    text,
  );
}

function tidyPaths(paths: JsonObject): JsonObject {
  return mapValues(paths, (operations) =>
    mapValues(operations, (operation) =>
      mapValues(operation, (part, name) => tidySchema(part, { isInput: name !== 'responses' })),
    ),
  );
}

function tidySchema(schema: Json, direction: { isInput: boolean }): Json {
  if (Array.isArray(schema)) return schema.map((inner) => tidySchema(inner, direction));
  if (!isObject(schema)) return schema;
  const nonNull = schema['x-null-is-absent'] === true ? withoutNull(schema) : schema;
  const { 'x-null-is-absent': _absent, propertyNames: _names, ...plain } = nonNull;
  // A client must not break when an answer has a new field.
  if (!direction.isInput && plain['additionalProperties'] === false) {
    delete plain['additionalProperties'];
  }
  const entries = Object.entries(plain).filter(([, inner]) => !isNotYet(inner));
  return Object.fromEntries(entries.map(([name, inner]) => [name, tidySchema(inner, direction)]));
}

function isNotYet(value: Json): boolean {
  return isObject(value) && value['x-not-yet'] === true;
}

/** Accepted for the sake of clients that cannot leave a field out; nothing to advertise. */
function withoutNull(schema: JsonObject): JsonObject {
  const { type, anyOf, ...rest } = schema;
  if (Array.isArray(type)) return { type: type.find((one) => one !== 'null') ?? null, ...rest };
  const others = Array.isArray(anyOf) ? anyOf.filter((one) => !isNull(one)) : [];
  const [only] = others;
  if (others.length === 1 && isObject(only)) return { ...only, ...rest };
  return { anyOf: others, ...rest };
}

function isNull(schema: Json): boolean {
  return isObject(schema) && schema['type'] === 'null';
}

function isObject(value: Json | undefined): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function mapValues(value: Json, change: (inner: Json, name: string) => Json): JsonObject {
  if (!isObject(value)) return {};
  return Object.fromEntries(
    Object.entries(value).map(([name, inner]) => [name, change(inner, name)]),
  );
}
