/** Schemas of the event stream. */
import { z } from 'zod';
import { EVENT_TYPES } from '../core/events.ts';
import { doc, idSchema, limitField, listOf, time } from '../http/schemas.ts';

const cursor = z.string().meta({
  description: 'A position in the stream. Opaque: store it and pass it back unchanged.',
  examples: ['AWWgxSp9U9bXAZPypHweAAAAAAAAAAAD6AGT8qR8Hns6nVJvDoxLIao'],
});

export const eventQuery = z.strictObject({
  after: doc(
    z.string().max(200).optional(),
    'A cursor: only events after it. `latest`: only new events. Without it the ' +
      'stream begins with the oldest stored event.',
    'latest',
  ),
  types: doc(
    z.string().max(1_000).optional(),
    'Only these types, separated by commas.',
    'email.delivered,email.bounced',
  ),
  email_id: z.string().optional().meta({
    description: 'Only events of this email.',
    format: 'uuid',
  }),
  limit: limitField.default(100),
});

export const eventHeaders = z.looseObject({
  'last-event-id': doc(
    z.string().max(200).optional(),
    'To resume an event stream: the cursor of its last event. Precedes `after`.',
  ),
});

export const streamEvent = z
  .object({
    object: z.literal('event'),
    id: idSchema('The event, the same as `webhook-id`: repeated events have the same id.'),
    type: z.enum(EVENT_TYPES),
    created_at: time('When it occurred.'),
    number: doc(z.int().min(1), '1, 2, 3, … within its email, as in the timeline.', 2),
    cursor,
    data: z.looseObject({}).describe('As in the webhook of this event.'),
  })
  .meta({ id: 'StreamEvent' });

const eventList = listOf('EventList', streamEvent, {
  cursor: cursor.describe(
    'The position to continue from, also when `data` is empty: pass it as `after`.',
  ),
});

/** The Accept header chooses the content type. */
export const eventPage = {
  description: 'In commit order. With `Accept: text/event-stream` it stays open.',
  content: {
    'application/json': { schema: eventList },
    'text/event-stream': {
      schema: z.string().meta({
        format: 'binary',
        description:
          'Server-sent events: `id` is the cursor, `event` the type, `data` the event as JSON.',
        examples: ['id: AWWgxSp9U9bX\nevent: email.delivered\ndata: {"object":"event", …}\n\n'],
      }),
    },
  },
};
