/**
 * Rewrites the JSON Schema of the OpenAPI document into shapes that client generators compile.
 *
 * JSON Schema has several spellings for the same set of values, and generators know only some of them
 * (docs/generated-clients.md lists the tested ones). Each rule replaces a spelling, and keeps the values unless its
 * comment says otherwise. The service validates with the zod schemas, so no rule changes a response.
 */

export type Json = null | boolean | number | string | Json[] | JsonObject;
export type JsonObject = { [name: string]: Json };

const INT32_MAX = 2 ** 31 - 1;

type Rule = (schema: JsonObject) => JsonObject;

/** Members of these are named after fields, so a member `const` or `enum` is no keyword. */
const NAMES_OF_FIELDS = new Set(['properties', 'mapping', 'schemas', 'headers', 'responses']);

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

/** `const: "email"` becomes an `enum` of one value: some generators ignore `const`, and all know `enum`. */
const constIsEnum: Rule = ({ const: value, ...fields }) =>
  value === undefined ? fields : { ...fields, enum: [value] };

/**
 * An `enum` of `true`, or of `"true"` and `"false"` as in a query, names no type that compiles. It becomes a plain
 * boolean, which also permits `false`; the description names the only value.
 */
const booleansAreNotEnums: Rule = (schema) => {
  const { enum: values, default: defaultValue, description, ...fields } = schema;
  const [onlyValue, ...furtherValues] = Array.isArray(values) ? values : [];
  const isQuery =
    onlyValue === 'true' && furtherValues[0] === 'false' && furtherValues.length === 1;
  if (typeof onlyValue !== 'boolean' && !isQuery) return schema;
  const descriptions = typeof description === 'string' ? [description] : [];
  const text = (isQuery ? descriptions : [...descriptions, `Always \`${onlyValue}\`.`]).join(' ');
  return {
    ...fields,
    type: 'boolean',
    ...(text !== '' && { description: text }),
    ...(defaultValue !== undefined && { default: defaultValue === 'true' }),
    ...(!isQuery && fields['examples'] === undefined && { examples: [onlyValue ?? true] }),
  };
};

/** `anyOf: [{type: "string", …}, {type: "null"}]` becomes one type that may be null. A `$ref` keeps its `anyOf`. */
const nullIsInTheType: Rule = (schema) => {
  const { anyOf, ...fields } = schema;
  const [alternative, ...furtherAlternatives] = withoutNullType(anyOf);
  if (!isNullable(anyOf) || furtherAlternatives.length > 0 || !isObject(alternative)) return schema;
  if (typeof alternative['type'] !== 'string') return schema;
  const values = alternative['enum'];
  return {
    ...alternative,
    ...fields,
    type: [alternative['type'], 'null'],
    ...(Array.isArray(values) && { enum: [...values, null] }),
  };
};

/** `type: ["string", "boolean"]` becomes a union of two. */
const typesAreAlternatives: Rule = (schema) => {
  const { type, ...fields } = schema;
  const types = Array.isArray(type) ? type : [];
  if (types.filter((name) => name !== 'null').length < 2) return schema;
  return { ...fields, anyOf: types.map((name) => ({ type: name })) };
};

/** Alternatives of one scalar type (a time or a date) become that type; the description lists their formats. */
const sameTypeIsNoUnion: Rule = (schema) => {
  const { anyOf, ...fields } = schema;
  const types = scalarTypes(withoutNullType(anyOf));
  const [onlyType] = types;
  if (types.length < 2 || onlyType === undefined || new Set(types).size > 1) return schema;
  return { ...fields, type: isNullable(anyOf) ? [onlyType, 'null'] : onlyType };
};

/** Alternatives with different JSON types become `oneOf`, which more generators know: exactly one of them matches. */
const distinctTypesAreOneOf: Rule = (schema) => {
  const { anyOf, ...fields } = schema;
  const types = Array.isArray(anyOf)
    ? anyOf.map((alternative) => isObject(alternative) && alternative['type'])
    : [];
  const areDistinct = types.every((type) => typeof type === 'string');
  if (types.length < 2 || !areDistinct || new Set(types).size < types.length) return schema;
  return { ...fields, oneOf: anyOf! };
};

/** Drops `pattern` beside a `format`: a client that parses the format has no text to match a pattern with. */
const formatOrPattern: Rule = (schema) => {
  const { pattern: _pattern, ...fields } = schema;
  return typeof schema['format'] === 'string' ? fields : schema;
};

/** The largest integers of JavaScript mean "any integer" here. Without a format, generators use 32 bits. */
const largeIntegersHave64Bits: Rule = (schema) => {
  const { minimum, maximum, ...fields } = schema;
  if (schema['type'] !== 'integer' && !isNullableInteger(schema)) return schema;
  if (typeof maximum !== 'number' || maximum <= INT32_MAX) return schema;
  return {
    ...fields,
    format: 'int64',
    ...(minimum !== undefined && minimum !== Number.MIN_SAFE_INTEGER && { minimum }),
    ...(maximum !== Number.MAX_SAFE_INTEGER && { maximum }),
  };
};

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
  return Array.isArray(alternatives)
    ? alternatives.filter((alternative) => !isNull(alternative))
    : [];
}

function isNullable(alternatives: Json | undefined): boolean {
  return Array.isArray(alternatives) && alternatives.some(isNull);
}

function scalarTypes(alternatives: readonly Json[]): string[] {
  return alternatives.flatMap((alternative) => {
    const type = isObject(alternative) ? alternative['type'] : undefined;
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
