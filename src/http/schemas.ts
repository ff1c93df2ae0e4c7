/** Schemas that several routes share: times, ids, pages, failures, preconditions. */
import type { FastifyReply, FastifyRequest } from 'fastify';
import { z } from 'zod';
import { ANY_STATE, type IsExpected } from '../core/entity-tag.ts';

const EXAMPLE_ID = '0193f2a4-7c1e-7b3a-9d52-6f0e8c4b21aa';
const EXAMPLE_TIME = '2026-11-21T08:30:00.123Z';

/** Adds a description and examples for the OpenAPI document. */
export const doc = <Schema extends z.ZodType>(
  schema: Schema,
  description: string,
  ...examples: unknown[]
): Schema => schema.meta({ description, ...(examples.length > 0 && { examples }) });

export const shown = <Schema extends z.ZodType>(schema: Schema, ...examples: unknown[]): Schema =>
  schema.meta({ examples });

export const idSchema = (description: string) =>
  z.string().meta({ description, format: 'uuid', examples: [EXAMPLE_ID] });

/** Describes a time in a response: ISO 8601, UTC, milliseconds. */
export const time = (description: string) =>
  z.string().meta({ description, format: 'date-time', examples: [EXAMPLE_TIME] });

/** Treats null as absent, because some clients cannot omit a field. */
export const optional = <Schema extends z.ZodType>(schema: Schema) =>
  schema.nullish().meta({ ...schema.meta(), 'x-null-is-absent': true });

/** Describes a short text on one line, which lists and terminals show. */
export const label = (max: number, min = 1) =>
  z
    .string()
    .min(min)
    .max(max)
    .refine((text) => !/[\u0000-\u001f\u007f]/.test(text), 'must not have control characters');

export const environment = doc(
  z.enum(['live', 'test']),
  'Environment. `live` delivers mail. `test` simulates every delivery.',
);

/** Describes the path parameters of `/…/:id`. A malformed id gets a 404. */
export const idParams = (what: string) => z.object({ id: idSchema(`The id of the ${what}.`) });

export const limitField = doc(
  z.coerce.number<string>().int().min(1).max(100).default(20),
  'Maximum number of objects to return.',
);

const pageFields = {
  limit: limitField,
  after: z
    .string()
    .optional()
    .meta({
      description: 'Returns only objects older than this id, for the next page.',
      format: 'uuid',
      examples: [EXAMPLE_ID],
    }),
  before: z
    .string()
    .optional()
    .meta({
      description: 'Returns only objects newer than this id, for the previous page.',
      format: 'uuid',
      examples: [EXAMPLE_ID],
    }),
};

export const listQuery = <Filters extends z.ZodRawShape>(filters: Filters) =>
  z.strictObject({ ...pageFields, ...filters });

export const pageQuery = listQuery({});

/**
 * Describes `{"object": "list", "data": [...], "has_more": bool}`.
 * @param id name in the OpenAPI document and in generated clients
 * @param more further fields of the list
 */
export const listOf = <Item extends z.ZodType, More extends z.ZodRawShape>(
  id: `${string}${'List' | 'History'}`,
  item: Item,
  more: More = {} as More,
) =>
  z
    .object({
      object: z.literal('list'),
      data: z.array(item),
      has_more: z.boolean().describe('True when the list continues in this direction.'),
      ...more,
    })
    .meta({ id });

/**
 * Describes the response to a DELETE.
 * @param id name in the OpenAPI document and in generated clients
 */
export const deleted = <Name extends string>(id: `Deleted${string}`, object: Name) =>
  z
    .object({
      object: z.literal(object),
      id: idSchema('The deleted object.'),
      deleted: z.literal(true),
    })
    .meta({ id });

export const failure = z
  .object({
    error: z.object({
      code: z
        .string()
        .meta({ description: 'Stable code of the error.', examples: ['validation_error'] }),
      message: z.string().meta({
        description: 'One sentence that says what is wrong and what to do.',
        examples: ['to[2]: "bob@" is not an email address'],
      }),
      request_id: idSchema('Id of the request, to quote when you report a problem.'),
      details: doc(
        z
          .array(
            z.object({
              field: z.string().meta({ examples: ['to[2]'] }),
              message: z.string().meta({ examples: ['"bob@" is not an email address'] }),
            }),
          )
          .optional(),
        'Invalid fields, each with its own message.',
      ),
    }),
  })
  .meta({ id: 'Failure', description: 'Body of every failure.' });

export const FAILURES = {
  400: 'The body is not JSON, or a header is malformed.',
  401: 'The API key is missing or not valid.',
  403: 'The key does not allow this, or the sending domain is not verified.',
  404: 'No such object exists in this project and environment.',
  409: 'The current state does not allow the request, or the Idempotency-Key was used with another body.',
  412: 'The object has changed since the ETag in If-Match.',
  413: 'The body is larger than 45 MB.',
  415: 'The body is not JSON.',
  422: 'A field is invalid.',
  429: 'A limit is exceeded. Retry after the seconds in Retry-After.',
  503: 'The service is unavailable. Retry after the seconds in Retry-After.',
} as const;

type FailureStatus = keyof typeof FAILURES;
type Failures<Status extends FailureStatus> = Record<
  Status | 401 | 403 | 429 | 503,
  typeof failure
>;

/** Returns the failures of a route for its `response`: these, and the failures of every route with a key. */
export function failures<Status extends FailureStatus = never>(
  ...statuses: readonly Status[]
): Failures<Status> {
  const all = [401, 403, 429, 503, ...statuses] as const;
  return Object.fromEntries(all.map((status) => [status, failure])) as Failures<Status>;
}

/** A text that is parsed. @param parse returns null for a text that is not valid */
export const parsed = <Value>(parse: (text: string) => Value | null, message: string) =>
  z.string().transform((text, context) => {
    const value = parse(text);
    if (value !== null) return value;
    context.addIssue({ code: 'custom', message });
    return z.NEVER;
  });

const TAGS_MAX_CHARACTERS = 1_000;

/**
 * Headers of a route that changes an object with an entity tag (RFC 9110 §13.1.1). A change with the tag that its
 * caller has read never overwrites a state that its caller has not seen.
 */
export const preconditionHeaders = z.object({
  'if-match': z
    .string()
    .max(TAGS_MAX_CHARACTERS)
    .optional()
    .meta({
      description:
        'The `etag` of the object that you have read. The change is refused with 412 if the object has changed ' +
        'since. Without this header the change is made in any case.',
      examples: ['"Zk3mQ0sV8n1bT5yXc7uJ2w"'],
    }),
});

/** Returns the test of a change: which states of its object the request allows it to replace. */
export function expectedBy({ headers }: Pick<FastifyRequest, 'headers'>): IsExpected {
  const expected = headers['if-match'];
  if (expected === undefined) return ANY_STATE;
  // A weak tag matches nothing, because it does not stand for the exact state (§8.8.3.2).
  const tags = expected.split(',').map((one) => one.trim());
  return (tag) => tags.includes('*') || tags.includes(tag);
}

/** Field of an object that several people change. */
export const entityTag = z.string().meta({
  description:
    'Tag of the current state of the object, which every change replaces. Send it as `If-Match` with a change.',
  examples: ['"Zk3mQ0sV8n1bT5yXc7uJ2w"'],
});

/** Returns the object for the response, with its tag in the header `ETag`. */
export function tagged<One extends { etag: string }>(reply: FastifyReply, object: One): One {
  reply.header('etag', object.etag);
  return object;
}
