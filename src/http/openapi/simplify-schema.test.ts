/** The OpenAPI document has only shapes that the client generators of docs/generated-clients.md compile. */
import { test } from 'node:test';
import assert from 'node:assert/strict';
import { generateOpenApi } from './openapi.ts';
import { isNull, isObject, type Json, type JsonObject, simplifySchema } from './simplify-schema.ts';

type Media = { schema: { $ref?: string } };
type Operation = {
  operationId: string;
  parameters?: { name: string; in: string }[];
  requestBody?: { content: Record<string, Media> };
  responses: Record<string, { content?: Record<string, Media> }>;
};

const document = (await generateOpenApi()) as {
  paths: Record<string, Record<string, Operation>>;
  components: { schemas: Record<string, JsonObject>; securitySchemes: Record<string, object> };
};
const operations = Object.values(document.paths).flatMap((path) => Object.values(path));
const { schemas, securitySchemes } = document.components;
const names = Object.keys(schemas);

test('each spelling that generators do not compile has one that they do', () => {
  const text = { type: 'string' };
  const none = { type: 'null' };
  const rows: [why: string, from: JsonObject, to: JsonObject][] = [
    ['two types', { type: ['string', 'boolean'] }, { oneOf: [text, { type: 'boolean' }] }],
    [
      'two types or null',
      { type: ['string', 'integer', 'null'], description: 'x' },
      { description: 'x', oneOf: [text, { type: 'integer' }, none] },
    ],
    ['a type or null stays', { type: ['string', 'null'] }, { type: ['string', 'null'] }],
    [
      'a format or null',
      { anyOf: [{ ...text, format: 'uuid', description: 'inner' }, none], description: 'outer' },
      { type: ['string', 'null'], format: 'uuid', description: 'outer' },
    ],
    [
      'one of some words, or null',
      { anyOf: [{ ...text, enum: ['a', 'b'] }, none] },
      { type: ['string', 'null'], enum: ['a', 'b', null] },
    ],
    [
      'an object or null',
      { anyOf: [{ type: 'object', properties: { a: text } }, none] },
      { type: ['object', 'null'], properties: { a: text } },
    ],
    [
      'a list or null',
      { anyOf: [{ type: 'array', items: text }, none] },
      { type: ['array', 'null'], items: text },
    ],
    [
      'a reference or null stays',
      { anyOf: [{ $ref: '#/x' }, none] },
      { anyOf: [{ $ref: '#/x' }, none] },
    ],
    [
      'a word or a list',
      { anyOf: [text, { type: 'array', items: text }] },
      { oneOf: [text, { type: 'array', items: text }] },
    ],
    [
      'a time or a date',
      {
        anyOf: [
          { ...text, format: 'date-time' },
          { ...text, format: 'date' },
        ],
      },
      text,
    ],
    ['a constant word', { ...text, const: 'email' }, { ...text, enum: ['email'] }],
    [
      'a constant boolean',
      { type: 'boolean', const: true, description: 'Gone.' },
      { type: 'boolean', description: 'Gone. Always `true`.', examples: [true] },
    ],
    [
      'an enum of booleans',
      { type: 'boolean', enum: [false] },
      { type: 'boolean', description: 'Always `false`.', examples: [false] },
    ],
    [
      'the words true and false of a query',
      { ...text, enum: ['true', 'false'], default: 'false' },
      { type: 'boolean', default: false },
    ],
    [
      'a pattern beside a format',
      { ...text, format: 'date-time', pattern: '^x$' },
      { ...text, format: 'date-time' },
    ],
    ['a pattern alone stays', { ...text, pattern: '^x$' }, { ...text, pattern: '^x$' }],
    [
      'any integer',
      { type: 'integer', minimum: Number.MIN_SAFE_INTEGER, maximum: Number.MAX_SAFE_INTEGER },
      { type: 'integer', format: 'int64' },
    ],
    [
      'any integer or null',
      { anyOf: [{ type: 'integer', minimum: 0, maximum: Number.MAX_SAFE_INTEGER }, none] },
      { type: ['integer', 'null'], format: 'int64', minimum: 0 },
    ],
    [
      'a small integer stays',
      { type: 'integer', minimum: 1, maximum: 100 },
      { type: 'integer', minimum: 1, maximum: 100 },
    ],
    [
      'fields that are named like keywords stay',
      { type: 'object', properties: { const: text, enum: text, type: text } },
      { type: 'object', properties: { const: text, enum: text, type: text } },
    ],
    ['examples stay', { examples: [{ const: 1 }] }, { examples: [{ const: 1 }] }],
  ];
  for (const [why, from, to] of rows) {
    assert.deepEqual(simplifySchema(from), to, why);
    const nested = { type: 'object', properties: { field: from }, required: ['field'] };
    assert.deepEqual(simplifySchema(nested), { ...nested, properties: { field: to } }, why);
    assert.deepEqual(simplifySchema(to), to, `${why}: it is the final spelling`);
  }
});

test('the document has only these spellings', () => {
  const seen = { nullable: 0, union: 0 };
  for (const [place, schema] of schemasIn(document as unknown as Json)) {
    const { type, anyOf, oneOf, enum: values } = schema;
    assert.ok(!('const' in schema), `${place}: const`);
    assert.ok(!('pattern' in schema && 'format' in schema), `${place}: pattern and format`);
    if (Array.isArray(type)) {
      assert.ok(type.length === 2 && type[1] === 'null' && type[0] !== 'null', place);
      seen.nullable += 1;
    }
    if (Array.isArray(values)) {
      const words = values.filter((one) => typeof one === 'string');
      const nullsOf = Array.isArray(type) ? 1 : 0;
      assert.ok(words.length > 0 && values.length === words.length + nullsOf, `${place}: enum`);
      assert.ok(!words.includes('true'), `${place}: a boolean`);
    }
    if (Array.isArray(anyOf)) {
      const [reference, none] = anyOf;
      assert.ok(isObject(reference) && '$ref' in reference && isNull(none!), `${place}: anyOf`);
      seen.nullable += 1;
    }
    if (Array.isArray(oneOf)) {
      const types = oneOf.map((one) => isObject(one) && one['type']);
      const areDistinct =
        types.every((one) => typeof one === 'string') && new Set(types).size === types.length;
      assert.ok(areDistinct || 'discriminator' in schema, `${place}: oneOf`);
      seen.union += 1;
    }
    assert.ok(!('allOf' in schema || 'not' in schema || '$defs' in schema), place);
    if (type === 'integer' && Number(schema['maximum'] ?? 0) > 2 ** 31 - 1) {
      assert.equal(schema['format'], 'int64', place);
    }
  }
  assert.ok(seen.nullable > 100 && seen.union > 4, JSON.stringify(seen));
});

test('each body in JSON is a component, which generators turn into a named type', () => {
  let checked = 0;
  for (const { operationId, requestBody, responses } of operations) {
    for (const { content } of [requestBody ?? {}, ...Object.values(responses)] as Body[]) {
      const json = content?.['application/json'];
      if (json === undefined) continue;
      const { $ref = '' } = json.schema;
      assert.match($ref, /^#\/components\/schemas\/\w+$/, operationId);
      checked += 1;
    }
  }
  assert.ok(checked > 300, String(checked));
});

test('no component has the name of something else that a generator makes', () => {
  const flat = (name: string) => name.replaceAll(/[^A-Za-z0-9]/g, '').toLowerCase();
  const taken = new Map<string, string>();
  const take = (name: string, what: string) => {
    assert.equal(taken.get(flat(name)), undefined, `${name}: ${what}`);
    taken.set(flat(name), what);
  };
  for (const name of names) take(name, 'a component');
  for (const name of Object.keys(securitySchemes)) take(name, 'a security scheme');
  // Go has a constructor for each type, and generators that split requests from responses add these words.
  for (const name of names) take(`New${name}`, `the constructor of ${name}`);
  for (const name of names) take(`${name}Input`, `${name} in requests`);
  for (const { operationId } of operations) {
    const words = [
      '',
      'Request',
      'Req',
      'Response',
      'Res',
      'Ok',
      'Params',
      'Body',
      'Data',
      'Error',
    ];
    for (const word of words) take(`${operationId}${word}`, `${operationId}'s ${word}`);
  }
});

test('the parameters of an operation have different names in every spelling', () => {
  for (const { operationId, parameters = [] } of operations) {
    const flat = parameters.map(({ name }) => name.replaceAll(/[^A-Za-z0-9]/g, '').toLowerCase());
    assert.equal(new Set(flat).size, flat.length, operationId);
  }
});

type Body = { content?: Record<string, Media> };

function* schemasIn(value: Json, place = ''): Generator<[string, JsonObject]> {
  if (Array.isArray(value)) {
    for (const [index, one] of value.entries()) yield* schemasIn(one, `${place}/${index}`);
  }
  if (!isObject(value)) return;
  const isNames = /\/(properties|schemas|headers|mapping)$/.test(place);
  if (!isNames) yield [place, value];
  for (const [name, inner] of Object.entries(value)) {
    if (!isNames && (name === 'example' || name === 'examples')) continue;
    yield* schemasIn(inner, `${place}/${name}`);
  }
}
