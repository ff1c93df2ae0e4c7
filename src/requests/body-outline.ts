/**
 * Outlines the body of a failed request for the API log: its shape, with the values of fields that identify the
 * request. All other fields, known or not, appear with name, type and size only. The content of an email can have a
 * link that resets a password, and a misspelled field can contain anything.
 */

/** API fields whose texts and numbers are kept. Content, secrets, variables and metadata are not among them. */
const KEPT: ReadonlySet<string> = new Set([
  'address',
  'bcc',
  'category',
  'cc',
  'description',
  'domain',
  'enabled',
  'environment',
  'event',
  'events',
  'expires_at',
  'filename',
  'from',
  'id',
  'in',
  'limit',
  'mail_from',
  'name',
  'permission',
  'reason',
  'reply_to',
  'role',
  'scheduled_at',
  'status',
  'stream',
  'template',
  'template_id',
  'to',
  'type',
  'version',
]);

/** Objects whose fields the API names. In others, like `metadata` and `variables`, the caller names the fields. */
const PARENTS: ReadonlySet<string> = new Set([
  '',
  'attachments',
  'bcc',
  'cc',
  'from',
  'reply_to',
  'tags',
  'template',
  'to',
]);

const TEXT_MAX = 200;
const NAME_MAX = 64;
const ELEMENTS_MAX = 3;
const FIELDS_MAX = 30;
const DEPTH_MAX = 4;
const OUTLINE_MAX = 4_096;
/** Limit on values of any kind in an outline. Further values appear only with their size. */
const VALUES_MAX = 200;

/** Returns JSON of at most 4 KB. */
export function outlineOf(body: unknown): string {
  const whole = JSON.stringify(
    describe(body, { field: '', depth: 0, isKnown: true, budget: { left: VALUES_MAX } }),
  );
  return whole.length <= OUTLINE_MAX ? whole : JSON.stringify(sizeOf(body));
}

type Place = {
  /** The name of the field; for an element the name of its list. */
  field: string;
  depth: number;
  /** True when the API defines the fields of the enclosing object. */
  isKnown: boolean;
  budget: { left: number };
};

function describe(value: unknown, place: Place): unknown {
  const { field, depth, budget } = place;
  budget.left -= 1;
  if (value === null || typeof value === 'boolean') return value;
  const isNested = typeof value === 'object';
  if (isNested && (depth === DEPTH_MAX || budget.left <= 0)) return sizeOf(value);
  if (Array.isArray(value)) {
    const some: unknown[] = value.slice(0, ELEMENTS_MAX).map((one: unknown) => {
      return describe(one, { ...place, depth: depth + 1 });
    });
    const more = value.length - some.length;
    return more > 0 ? [...some, `(${more} more)`] : some;
  }
  if (isNested)
    return describeFields(value, { ...place, isKnown: place.isKnown && PARENTS.has(field) });
  if (!place.isKnown || !KEPT.has(field)) return sizeOf(value);
  return typeof value === 'string' && value.length > TEXT_MAX ? sizeOf(value) : value;
}

function describeFields(value: object, { depth, isKnown, budget }: Place): object {
  const fields = Object.entries(value);
  const some = fields.slice(0, FIELDS_MAX).map(([field, one]) => {
    return [
      field.slice(0, NAME_MAX),
      describe(one, { field, depth: depth + 1, isKnown, budget }),
    ] as const;
  });
  const more = fields.length - some.length;
  return Object.fromEntries(more > 0 ? [...some, ['…', `(${more} more)`]] : some);
}

function sizeOf(value: unknown): string {
  if (typeof value === 'string') return `(text, ${counted(value.length, 'character')})`;
  if (Array.isArray(value)) return `(list, ${counted(value.length, 'element')})`;
  if (typeof value !== 'object' || value === null) return `(${typeof value})`;
  return `(object, ${counted(Object.keys(value).length, 'field')})`;
}

function counted(count: number, what: string): string {
  return `${count.toLocaleString('en')} ${what}${count === 1 ? '' : 's'}`;
}
