/** Events of the stream on the wire. */
import { z } from 'zod';
import { EVENT_TYPES } from '../../core/events.ts';
import { idSchema, limitField, listOf, time } from './common.ts';

const cursor = z.string().meta({
  description: 'A place in the stream. Opaque: store it and give it back as it is.',
  examples: ['AWWgxSp9U9bXAZPypHweAAAAAAAAAAAD6AGT8qR8Hns6nVJvDoxLIao'],
});

export const eventQuery = z.strictObject({
  after: z
    .string()
    .max(200)
    .optional()
    .describe(
      'A cursor: only what comes behind it. `latest`: only what happens from now on. Without it the ' +
        'stream begins with the oldest event that is kept.',
    ),
  types: z
    .string()
    .max(1_000)
    .optional()
    .meta({
      description: 'Only these kinds, separated by commas.',
      examples: ['email.delivered,email.bounced'],
    }),
  email_id: z.string().optional().meta({
    description: 'Only what is about this email.',
    format: 'uuid',
  }),
  limit: limitField.default(100),
});

export const eventHeaders = z.looseObject({
  'last-event-id': z
    .string()
    .max(200)
    .optional()
    .describe('Of an event stream that goes on: the cursor of its last event, before `after`.'),
});

export const streamEvent = z
  .object({
    object: z.literal('event'),
    id: idSchema('The event, the same as `webhook-id`: what comes twice has one id.'),
    type: z.enum(EVENT_TYPES),
    created_at: time('When it happened.'),
    number: z.int().describe('1, 2, 3, … within its email, as in the timeline.'),
    cursor,
    data: z.looseObject({}).describe('As in the webhook of this event.'),
  })
  .meta({ id: 'StreamEvent' });

const eventList = listOf(streamEvent)
  .extend({
    cursor: cursor.describe('Where to go on, also when `data` is empty: give it as `after`.'),
  })
  .meta({ id: 'EventList' });

/** Either, by the Accept header. */
export const eventPage = {
  description: 'In commit order. With `Accept: text/event-stream` it stays open.',
  content: {
    'application/json': { schema: eventList },
    'text/event-stream': {
      schema: z.string().meta({
        description:
          'Server-sent events: `id` is the cursor, `event` the kind, `data` the event as JSON.',
      }),
    },
  },
};
