/** The log of webhook deliveries in requests and responses: filters, statistics, a selection to replay. */
import { z } from 'zod';
import { EVENT_TYPES } from '../../core/events.ts';
import { doc, idSchema, listQuery, parsed, shown, time } from '../../http/schemas.ts';
import { addressKey, parseAddress } from '../../mail/address.ts';
import { isId } from '../../database/ids.ts';
import { parseResponseCode } from '../delivery-store.ts';
import { SAMPLE_TYPES } from '../sample-events.ts';
import { deliveryStatus, responseError, responseStatus } from '../schemas.ts';

const instant = (description: string, example: string) =>
  z.iso.datetime({ offset: true }).meta({ description, examples: [example] });

const SINCE = '2026-11-21T08:00:00Z';
const UNTIL = '2026-11-21T09:00:00Z';

export const webhookDeliveryQuery = listQuery({
  status: deliveryStatus.optional(),
  type: doc(
    z.enum([...EVENT_TYPES, 'webhook.test']).optional(),
    'Returns only deliveries of this type of event.',
  ),
  code: doc(
    parsed(
      parseResponseCode,
      'must be a status such as 500, a class such as 5xx, or none',
    ).optional(),
    'Returns only deliveries whose last attempt got this HTTP status (`500`), a status of this class (`5xx`), ' +
      'or no response (`none`).',
    '500',
  ),
  since: instant('Returns only events from this time on.', SINCE).optional(),
  until: instant('Returns only events before this time.', UNTIL).optional(),
  email_id: z
    .string()
    .refine(isId, 'must be the id of an email')
    .optional()
    .meta({
      description: 'Returns only events of this email, at most the newest 1,000.',
      format: 'uuid',
      examples: ['0193f2a4-7c1e-7b3a-9d52-6f0e8c4b21aa'],
    }),
  recipient: doc(
    parsed((text) => {
      const address = parseAddress(text);
      return address && addressKey(address);
    }, 'must be an email address').optional(),
    'Returns only events about this recipient, of the newest 500 emails to the address.',
    'jo@example.com',
  ),
});

export const statisticsQuery = z.strictObject({
  since: instant('Start of the period. Default: 24 hours before its end.', SINCE).optional(),
  until: instant('End of the period. Default: now.', UNTIL).optional(),
  intervals: doc(
    z.coerce.number<string>().int().min(1).max(200).default(48),
    'Number of intervals of equal length.',
  ),
});

const count = (description: string, example: number) => doc(z.int().min(0), description, example);

export const webhookStatistics = z
  .object({
    object: z.literal('webhook_statistics'),
    since: time('Start of the period.'),
    until: time('End of the period.'),
    delivered: count('Number of deliveries with a 2xx response.', 1180),
    failed: count(
      'Number of failed deliveries, and of pending ones whose last attempt failed.',
      66,
    ),
    waiting: count('Number of deliveries without an attempt.', 12),
    is_partial: z.boolean().meta({
      description:
        'True when the period has more than 20,000 deliveries. The statistics are then of the newest 20,000.',
    }),
    latency_p95_ms: doc(
      z.number().min(0).nullable(),
      'Response time that 95 % of the deliveries do not exceed, or null without a response.',
      312,
    ),
    pending: count(
      'Number of deliveries that wait for an attempt now, whatever the period. 10,001 means more than 10,000.',
      1204,
    ),
    next_attempt_at: time('Due time of the next attempt, or null when none waits.').nullable(),
    intervals: z
      .array(
        z.object({
          at: time('Start of the interval.'),
          delivered: shown(z.int().min(0), 25),
          failed: shown(z.int().min(0), 0),
          waiting: shown(z.int().min(0), 0),
        }),
      )
      .describe('All intervals of the period, oldest first.'),
    failures: z
      .array(
        z.object({
          status: responseStatus,
          answer: doc(
            z.string().nullable(),
            'First 200 characters of the newest of these responses, or null without a response.',
            '{"error":"database is locked"}',
          ),
          error: responseError,
          deliveries: shown(z.int().min(1), 66),
          attempts: doc(z.int().min(1), 'Number of attempts of these deliveries.', 81),
          first_at: time('Time of their first attempt.'),
          last_at: time('Time of their last attempt.'),
          delivery_id: idSchema('The newest of these deliveries.'),
        }),
      )
      .describe(
        'Failures by last response, the most frequent first, at most 20. Numbers in a response make no difference.',
      ),
  })
  .meta({ id: 'WebhookStatistics' });

const SELECTED_MAX = 500;

export const webhookSelection = z
  .strictObject({
    ids: doc(
      z.array(z.string().refine(isId, 'must be the id of a delivery')).min(1).max(SELECTED_MAX),
      'Ids of the deliveries, at most 500.',
      ['0193f2a4-7c1e-7b3a-9d52-6f0e8c4b21aa'],
    ),
  })
  .meta({ id: 'WebhookSelection' });

export const webhookSelectionReplay = z
  .object({
    object: z.literal('webhook_selection_replay'),
    queued: count(
      'Number of deliveries that are queued. Unknown ids, and deliveries that are being sent, are not.',
      3,
    ),
  })
  .meta({ id: 'WebhookSelectionReplay' });

export const webhookTestRequest = z
  .strictObject({
    type: doc(
      z.enum(SAMPLE_TYPES).optional(),
      'Type of the event. Its data is an example. Default: `webhook.test`.',
    ),
  })
  .meta({ id: 'WebhookTestRequest' });
