/** Schemas of the event stream. */
import { z } from 'zod';
import { EVENT_TYPES } from '../core/events.ts';
import { doc, idSchema, limitField, listOf, time } from '../http/schemas.ts';

const cursor = z.string().meta({
  description: 'Position in the stream. It is opaque. Store it and pass it back unchanged.',
  examples: ['AWWgxSp9U9bXAZPypHweAAAAAAAAAAAD6AGT8qR8Hns6nVJvDoxLIao'],
});

export const eventQuery = z.strictObject({
  after: doc(
    z.string().max(200).optional(),
    'Cursor, to return only events after it. `latest` returns only new events. Without it, the stream ' +
      'begins with the oldest stored event.',
    'latest',
  ),
  types: doc(
    z.string().max(1_000).optional(),
    'Returns only events of these types, separated by commas.',
    'email.delivered,email.bounced',
  ),
  email_id: z.string().optional().meta({
    description: 'Returns only events of this email.',
    format: 'uuid',
  }),
  limit: limitField.default(100),
});

export const eventHeaders = z.looseObject({
  'last-event-id': doc(
    z.string().max(200).optional(),
    'Cursor of the last received event, to resume a stream. It overrides `after`.',
  ),
});

export const streamEvent = z
  .object({
    object: z.literal('event'),
    id: idSchema('Id of the event, as in `webhook-id`. Repeated events have the same id.'),
    type: z.enum(EVENT_TYPES),
    created_at: time('Time of the event.'),
    number: doc(
      z.int().min(1),
      'Number of the event within its email, from 1, as in the timeline.',
      2,
    ),
    cursor,
    data: z.looseObject({}).describe('Data of the event, as in its webhook.'),
  })
  .meta({ id: 'StreamEvent' });

const eventList = listOf('EventList', streamEvent, {
  cursor: cursor.describe(
    'Position to continue from, even when `data` is empty. Pass it as `after`.',
  ),
});

/** The Accept header chooses the content type. */
export const eventPage = {
  description: 'Events in commit order. With `Accept: text/event-stream` the response stays open.',
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
