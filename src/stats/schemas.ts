import { z } from 'zod';
import { STATS_DIMENSIONS, STATS_GRANULARITIES } from './counts.ts';
import { doc, time } from '../http/schemas.ts';

const statsTime = (description: string, example: string) =>
  doc(z.union([z.iso.datetime({ offset: true }), z.iso.date()]).optional(), description, example);

export const statsQuery = z.strictObject({
  from: statsTime(
    'A time or a date in the first period. Default: 24 hours or 30 days before `to`.',
    '2026-11-01',
  ),
  to: statsTime(
    'The end; default: now. The period that contains it is included whole.',
    '2026-11-22',
  ),
  granularity: doc(
    z.enum(STATS_GRANULARITIES).default('day'),
    'The length of a period. Hours are kept for 31 days, days for 400.',
  ),
  by: doc(
    z.enum(STATS_DIMENSIONS).optional(),
    'Counts each value separately: the sending domain, the provider of the recipient, each tag as ' +
      '`name:value`, or the API key.',
  ),
});

const count = (description: string, example: number) =>
  z.int().meta({ description, examples: [example] });

const countUnlessByProvider = (description: string, example: number) =>
  doc(z.int().nullable(), `${description} Null by provider.`, example);

const atMost = (percent: number, example: number) =>
  doc(
    z.number().nullable(),
    `Upper bound in seconds of ${percent} % of the deliveries. Null: no deliveries, or more than 5 days.`,
    example,
  );

const counts = {
  value: doc(
    z.string().nullable(),
    'The domain, the provider, the tag or the id of the key. `*`: all further values together.',
    'acme.com',
  ),
  name: doc(z.string().nullable(), 'Name of the key.', null),
  emails: countUnlessByProvider('Accepted emails.', 1_200),
  recipients: countUnlessByProvider('Recipients of accepted emails.', 1_250),
  sent: count('Accepted by a relay.', 0),
  delivered: count("Accepted by the recipient's mail server.", 1_210),
  deferred: count('Attempts that were deferred.', 35),
  bounced: count('Refused permanently, at once or by a report later.', 18),
  failed: count('Ended without an answer about the recipient.', 4),
  suppressed: countUnlessByProvider('Not attempted: on the suppression list.', 15),
  canceled: countUnlessByProvider('Canceled.', 3),
  complained: count('Reported as spam.', 1),
  opened: count('Recipients who opened it, machines excluded, where opens are tracked.', 610),
  clicked: count('Recipients who clicked, machines excluded, where clicks are tracked.', 140),
  time_to_delivery: doc(
    z.object({
      count: count('Deliveries by an attempt of this service, `sent` or `delivered`.', 1_210),
      p50_at_most_s: atMost(50, 1),
      p95_at_most_s: atMost(95, 5),
      p99_at_most_s: atMost(99, 300),
    }),
    'Between acceptance, or the scheduled time, and delivery.',
  ),
};

const histogram = doc(
  z.array(
    z.object({
      at_most_s: doc(z.number().nullable(), 'Null: longer than the last bound.', 5),
      count: count('Deliveries up to this bound and above the previous one.', 310),
    }),
  ),
  'Deliveries by time to delivery.',
);

export const statsReport = z
  .object({
    object: z.literal('stats'),
    from: time('The beginning of the first period.'),
    to: time('The end of the last period.'),
    granularity: z.enum(STATS_GRANULARITIES),
    by: z.enum(STATS_DIMENSIONS).nullable(),
    totals: doc(
      z.array(z.object({ ...counts, histogram })),
      'Sums of each value over all periods, the largest first; at most one without `by`.',
    ),
    data: doc(
      z.array(z.object({ period: time('When the period begins.'), ...counts })),
      'One entry for each period and value with a count.',
    ),
  })
  .meta({ id: 'Stats' });
