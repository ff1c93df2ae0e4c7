/**
 * Rewrites the JSON Schema of the OpenAPI document into shapes that client generators compile.
 *
 * JSON Schema has several spellings for the same set of values, and generators know only some of them
 * (docs/generated-clients.md lists the tested ones). Each rule replaces a spelling, and keeps the values unless its
 * comment says otherwise. The service validates with the zod schemas, so no rule changes a response.
 */

export type Json = null | boolean | number | string | Json[] | JsonObject;
export type JsonObject = { [name: string]: Json };

type Rule = (schema: JsonObject) => JsonObject;

/** Rewrites a schema and all schemas in it. Examples are values, not schemas, and stay unchanged. */
export function simplifySchema(schema: Json): Json {
  if (Array.isArray(schema)) return schema.map(simplifySchema);
  if (!isObject(schema)) return schema;
  const inner = mapValues(schema, (value, name) => {
    if (name === 'example' || name === 'examples') return value;
    return NAMES_OF_FIELDS.has(name) ? mapValues(value, simplifySchema) : simplifySchema(value);
  });
  return RULES.reduce((result, rule) => rule(result), inner);
}

/** Members of these are named after fields, so a member `const` or `enum` is no keyword. */
const NAMES_OF_FIELDS = new Set(['properties', 'mapping', 'schemas', 'headers', 'responses']);

/** `const: "email"` becomes an `enum` of one value: some generators ignore `const`, and all know `enum`. */
const constIsEnum: Rule = ({ const: value, ...rest }) =>
  value === undefined ? rest : { ...rest, enum: [value] };

/**
 * An `enum` of `true`, or of `"true"` and `"false"` as in a query, names no type that compiles. It becomes a plain
 * boolean, which also permits `false`; the description names the only value.
 */
const booleansAreNotEnums: Rule = (schema) => {
  const { enum: values, default: defaultValue, description, ...rest } = schema;
  const [only, ...more] = Array.isArray(values) ? values : [];
  const isQuery = only === 'true' && more[0] === 'false' && more.length === 1;
  if (typeof only !== 'boolean' && !isQuery) return schema;
  const descriptions = typeof description === 'string' ? [description] : [];
  const text = (isQuery ? descriptions : [...descriptions, `Always \`${only}\`.`]).join(' ');
  return {
    ...rest,
    type: 'boolean',
    ...(text !== '' && { description: text }),
    ...(defaultValue !== undefined && { default: defaultValue === 'true' }),
    ...(!isQuery && rest['examples'] === undefined && { examples: [only ?? true] }),
  };
};

/** `anyOf: [{type: "string", …}, {type: "null"}]` becomes one type that may be null. A `$ref` keeps its `anyOf`. */
const nullIsInTheType: Rule = (schema) => {
  const { anyOf, ...rest } = schema;
  const [one, ...more] = withoutNullType(anyOf);
  if (!isNullable(anyOf) || more.length > 0 || !isObject(one)) return schema;
  if (typeof one['type'] !== 'string') return schema;
  const values = one['enum'];
  return {
    ...one,
    ...rest,
    type: [one['type'], 'null'],
    ...(Array.isArray(values) && { enum: [...values, null] }),
  };
};

/** `type: ["string", "boolean"]` becomes a union of two. */
const typesAreAlternatives: Rule = (schema) => {
  const { type, ...rest } = schema;
  const types = Array.isArray(type) ? type : [];
  if (types.filter((one) => one !== 'null').length < 2) return schema;
  return { ...rest, anyOf: types.map((one) => ({ type: one })) };
};

/** Alternatives of one scalar type (a time or a date) become that type; the description has their formats. */
const sameTypeIsNoUnion: Rule = (schema) => {
  const { anyOf, ...rest } = schema;
  const types = scalarTypes(withoutNullType(anyOf));
  const [only] = types;
  if (types.length < 2 || only === undefined || new Set(types).size > 1) return schema;
  return { ...rest, type: isNullable(anyOf) ? [only, 'null'] : only };
};

/** Alternatives with different JSON types become `oneOf`, which more generators know: exactly one of them matches. */
const distinctTypesAreOneOf: Rule = (schema) => {
  const { anyOf, ...rest } = schema;
  const types = Array.isArray(anyOf) ? anyOf.map((one) => isObject(one) && one['type']) : [];
  const areDistinct = types.every((one) => typeof one === 'string');
  if (types.length < 2 || !areDistinct || new Set(types).size < types.length) return schema;
  return { ...rest, oneOf: anyOf! };
};

/** Drops `pattern` beside a `format`: a client that parses the format has no text to match a pattern with. */
const formatOrPattern: Rule = (schema) => {
  const { pattern: _pattern, ...rest } = schema;
  return typeof schema['format'] === 'string' ? rest : schema;
};

/** The largest integers of JavaScript mean "any integer" here. Without a format, generators use 32 bits. */
const largeIntegersHave64Bits: Rule = (schema) => {
  const { minimum, maximum, ...rest } = schema;
  if (schema['type'] !== 'integer' && !isNullableInteger(schema)) return schema;
  if (typeof maximum !== 'number' || maximum <= INT32_MAX) return schema;
  return {
    ...rest,
    format: 'int64',
    ...(minimum !== undefined && minimum !== Number.MIN_SAFE_INTEGER && { minimum }),
    ...(maximum !== Number.MAX_SAFE_INTEGER && { maximum }),
  };
};
const INT32_MAX = 2 ** 31 - 1;

const RULES: readonly Rule[] = [
  constIsEnum,
  booleansAreNotEnums,
  nullIsInTheType,
  typesAreAlternatives,
  sameTypeIsNoUnion,
  distinctTypesAreOneOf,
  formatOrPattern,
  largeIntegersHave64Bits,
];

function isNullableInteger({ type }: JsonObject): boolean {
  return Array.isArray(type) && type.includes('integer');
}

function withoutNullType(alternatives: Json | undefined): Json[] {
  return Array.isArray(alternatives) ? alternatives.filter((one) => !isNull(one)) : [];
}

function isNullable(alternatives: Json | undefined): boolean {
  return Array.isArray(alternatives) && alternatives.some(isNull);
}

function scalarTypes(alternatives: readonly Json[]): string[] {
  return alternatives.flatMap((one) => {
    const type = isObject(one) ? one['type'] : undefined;
    return typeof type === 'string' && type !== 'object' && type !== 'array' ? [type] : [];
  });
}

export function isNull(schema: Json): boolean {
  return isObject(schema) && schema['type'] === 'null';
}

export function isObject(value: Json | undefined): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

export function mapValues(value: Json, change: (inner: Json, name: string) => Json): JsonObject {
  if (!isObject(value)) return {};
  return Object.fromEntries(
    Object.entries(value).map(([name, inner]) => [name, change(inner, name)]),
  );
}
