/**
 * What the API log keeps of the body of a failed request: its shape, with the values of those fields that say
 * what was asked for. All others, known or not, are named with their type and size only: content of an email can
 * have a link that resets a password, and a misspelled field can have anything.
 */

/** Fields of the API whose texts and numbers are kept. Content, secrets, variables and metadata are not among them. */
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

/** Below others, like `metadata` and `variables`, the names of fields are those of the caller. */
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
/** Of any kind, in all; beyond, sizes are enough. */
const VALUES_MAX = 200;

/** JSON, at most 4 KB. */
export function outlineOf(body: unknown): string {
  const whole = JSON.stringify(
    describe(body, { field: '', depth: 0, isKnown: true, room: { left: VALUES_MAX } }),
  );
  return whole.length <= OUTLINE_MAX ? whole : JSON.stringify(sizeOf(body));
}

type Place = {
  /** Its name; of an element that of its list. */
  field: string;
  depth: number;
  /** Whether the API defines the fields of what has it. */
  isKnown: boolean;
  room: { left: number };
};

function describe(value: unknown, place: Place): unknown {
  const { field, depth, room } = place;
  room.left -= 1;
  if (value === null || typeof value === 'boolean') return value;
  const isNested = typeof value === 'object';
  if (isNested && (depth === DEPTH_MAX || room.left <= 0)) return sizeOf(value);
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

function describeFields(value: object, { depth, isKnown, room }: Place): object {
  const fields = Object.entries(value);
  const some = fields.slice(0, FIELDS_MAX).map(([field, one]) => {
    return [
      field.slice(0, NAME_MAX),
      describe(one, { field, depth: depth + 1, isKnown, room }),
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
