/** Generators of values from JSON Schemas: valid ones, or ones that break the schema in one place out of eight. */
import fc from 'fast-check';
import { CHARACTER } from './characters.ts';

export type JsonSchema = {
  $ref?: string;
  type?: string | string[];
  format?: string;
  pattern?: string;
  enum?: unknown[];
  anyOf?: JsonSchema[];
  oneOf?: JsonSchema[];
  items?: JsonSchema;
  properties?: Record<string, JsonSchema>;
  required?: string[];
  additionalProperties?: boolean | JsonSchema;
  minimum?: number;
  maximum?: number;
  minLength?: number;
  maxLength?: number;
  examples?: unknown[];
};

/** Values that the schemas do not contain, and that pass more checks than arbitrary ones. */
export type Known = {
  strings: readonly string[];
  ids: () => readonly string[];
  fields: Readonly<Record<string, readonly unknown[]>>;
};

const ITEMS_MAX = 4;
/** Few at a time, because they may contradict each other. */
const OPTIONAL_MAX = 3;
const LENGTH_MAX = 60;
/** Enough for two ids and a number. */
const PATTERN_LENGTH_MAX = 80;

export class FromSchema {
  readonly #components: Readonly<Record<string, JsonSchema>>;
  readonly #known: Known;
  readonly #breaks: boolean;

  /** @param options.breaks whether values may break their schema, at any depth */
  constructor(
    components: Readonly<Record<string, JsonSchema>>,
    { known, breaks }: { known: Known; breaks: boolean },
  ) {
    this.#components = components;
    this.#known = known;
    this.#breaks = breaks;
  }

  valueOf(schema: JsonSchema): fc.Arbitrary<unknown> {
    const { examples = [] } = schema;
    return fc.oneof(
      { weight: 4, arbitrary: this.#permitted(schema) },
      ...(examples.length === 0 ? [] : [{ weight: 3, arbitrary: fc.constantFrom(...examples) }]),
      { weight: this.#breaks ? 1 : 0, arbitrary: fc.jsonValue({ maxDepth: 2 }) },
    );
  }

  #permitted(schema: JsonSchema): fc.Arbitrary<unknown> {
    const { type, ...rest } = schema;
    if (!Array.isArray(type) || !type.includes('null')) return this.#present(schema);
    const others = type.filter((one) => one !== 'null');
    return fc.oneof(
      { weight: 4, arbitrary: this.#present({ ...rest, type: others }) },
      { weight: 1, arbitrary: fc.constant(null) },
    );
  }

  #present(schema: JsonSchema): fc.Arbitrary<unknown> {
    const { $ref, anyOf, oneOf, items, properties, additionalProperties } = schema;
    if ($ref !== undefined) return this.valueOf(this.#components[$ref.split('/').at(-1)!]!);
    if (schema.enum) return fc.constantFrom(...schema.enum);
    const alternatives = anyOf ?? oneOf;
    if (alternatives) return fc.oneof(...alternatives.map((one) => this.valueOf(one)));
    if (items) return fc.array(this.valueOf(items), { maxLength: ITEMS_MAX });
    if (properties) return this.objectOf(properties, schema.required ?? []);
    if (typeof additionalProperties === 'object') {
      return fc.dictionary(fc.string(), this.valueOf(additionalProperties), { maxKeys: ITEMS_MAX });
    }
    const types = [schema.type ?? 'any'].flat();
    return fc.oneof(...types.map((type) => this.#scalar(type, schema)));
  }

  objectOf(
    properties: Record<string, JsonSchema>,
    required: readonly string[],
  ): fc.Arbitrary<Record<string, unknown>> {
    const optional = Object.keys(properties).filter((name) => !required.includes(name));
    return fc
      .subarray(optional, { maxLength: Math.min(OPTIONAL_MAX, optional.length) })
      .chain((extra) => {
        const names = this.#breaks && extra.length === 1 ? extra : [...required, ...extra];
        return fc.record(
          Object.fromEntries(names.map((name) => [name, this.#fieldOf(name, properties[name]!)])),
        );
      });
  }

  #fieldOf(name: string, schema: JsonSchema): fc.Arbitrary<unknown> {
    const known = this.#known.fields[name];
    const value = this.valueOf(schema);
    return known === undefined
      ? value
      : fc.oneof(
          { weight: 4, arbitrary: fc.constantFrom(...known) },
          { weight: 1, arbitrary: value },
        );
  }

  #scalar(type: string, schema: JsonSchema): fc.Arbitrary<unknown> {
    if (type === 'null') return fc.constant(null);
    if (type === 'boolean') return fc.boolean();
    if (type === 'integer' || type === 'number') {
      const { minimum = -1_000, maximum = 100_000 } = schema;
      return fc.integer({ min: Math.max(minimum, -1e9), max: Math.min(maximum, 1e9) });
    }
    return type === 'string' ? this.#string(schema) : fc.jsonValue({ maxDepth: 2 });
  }

  #string({ format, pattern, minLength = 0, maxLength = LENGTH_MAX }: JsonSchema) {
    if (format === 'uuid') return fc.oneof(fc.constantFrom(...this.#known.ids()), fc.uuid());
    if (format === 'date-time') {
      const nearMs = {
        min: new Date('2026-01-01T00:00:00Z'),
        max: new Date('2028-01-01T00:00:00Z'),
      };
      return fc.date({ ...nearMs, noInvalidDate: true }).map((date) => date.toISOString());
    }
    if (pattern !== undefined)
      return fc.stringMatching(new RegExp(pattern), { maxLength: PATTERN_LENGTH_MAX });
    const length = { minLength, maxLength: Math.max(minLength, Math.min(maxLength, LENGTH_MAX)) };
    return fc.oneof(
      fc.constantFrom(...this.#known.strings),
      fc.string(length),
      fc.string({ ...length, unit: CHARACTER }),
    );
  }
}
