/** Schemas of the report of counts (stats-report.ts), and of its query. */
import { z } from 'zod';
import { isTimeZone, STATS_DIMENSIONS, STATS_GRANULARITIES } from './counts.ts';
import { doc, time } from '../http/schemas.ts';

const statsTime = (description: string, example: string) =>
  doc(z.union([z.iso.datetime({ offset: true }), z.iso.date()]).optional(), description, example);

export const statsQuery = z.strictObject({
  from: statsTime(
    'Time or date in the first period. The default is 24 hours or 30 days before `to`.',
    '2026-11-01',
  ),
  to: statsTime(
    'Time or date of the end. The default is now. The period that contains it is included whole.',
    '2026-11-22',
  ),
  granularity: doc(
    z.enum(STATS_GRANULARITIES).default('day'),
    'Length of a period. Hours are kept for 31 days, and days for 400 days.',
  ),
  zone: doc(
    z.string().max(64).refine(isTimeZone, 'is not the name of a time zone').optional(),
    'Time zone in which days and dates begin. The default is UTC. Such days are sums of hours, which are kept for 31 ' +
      'days.',
    'Europe/Berlin',
  ),
  by: doc(
    z.enum(STATS_DIMENSIONS).optional(),
    'Dimension of the counts: the sending domain, the provider of the recipient, the tag as ' +
      '`name:value`, the API key, the template, or the reason of a deferral or bounce.',
  ),
});

const count = (description: string, example: number) =>
  z.int().meta({ description, examples: [example] });

const countUnlessByProvider = (description: string, example: number) =>
  doc(z.int().nullable(), `${description} Null with \`by=provider\` and \`by=reason\`.`, example);

const atMost = (percent: number, example: number) =>
  doc(
    z.number().nullable(),
    `Upper bound in seconds for ${percent} % of the deliveries, or null without deliveries or above 5 days.`,
    example,
  );

const counts = {
  value: doc(
    z.string().nullable(),
    'Domain, provider, tag, id of the key or template, or category of the reason. `*` stands for all further values ' +
      'together. Null without `by`.',
    'acme.com',
  ),
  name: doc(
    z.string().nullable(),
    'Name of the key or template. Null for other dimensions, and when it was deleted.',
    null,
  ),
  emails: countUnlessByProvider('Number of accepted emails.', 1_200),
  recipients: countUnlessByProvider('Number of recipients of accepted emails.', 1_250),
  sent: count('Number of recipients whose email a relay accepted.', 0),
  delivered: count('Number of recipients whose mail server accepted the email.', 1_210),
  deferred: count('Number of deferred attempts.', 35),
  bounced: count(
    'Number of recipients refused permanently, in the session or in a later report.',
    18,
  ),
  failed: count('Number of recipients that ended without an answer about them.', 4),
  suppressed: countUnlessByProvider(
    'Number of recipients on the suppression list, which were not attempted.',
    15,
  ),
  canceled: countUnlessByProvider('Number of canceled recipients.', 3),
  complained: count('Number of recipients who reported the email as spam.', 1),
  opened: count(
    'Number of recipients who opened the email, where opens are tracked. Machines are excluded.',
    610,
  ),
  clicked: count(
    'Number of recipients who clicked a link, where clicks are tracked. Machines are excluded.',
    140,
  ),
  time_to_delivery: doc(
    z.object({
      count: count(
        'Number of deliveries by an attempt of this service, `sent` or `delivered`.',
        1_210,
      ),
      p50_at_most_s: atMost(50, 1),
      p95_at_most_s: atMost(95, 5),
      p99_at_most_s: atMost(99, 300),
    }),
    'Time between acceptance, or the scheduled time, and delivery.',
  ),
};

const histogram = doc(
  z.array(
    z.object({
      at_most_s: doc(
        z.number().nullable(),
        'Upper bound in seconds, or null above the last bound.',
        5,
      ),
      count: count('Number of deliveries up to this bound and above the previous one.', 310),
    }),
  ),
  'Deliveries by time to delivery.',
);

export const statsReport = z
  .object({
    object: z.literal('stats'),
    from: time('Start of the first period.'),
    to: time('End of the last period.'),
    granularity: z.enum(STATS_GRANULARITIES),
    zone: doc(z.string().nullable(), 'Time zone of the days, or null for UTC.', null),
    by: z.enum(STATS_DIMENSIONS).nullable(),
    totals: doc(
      z.array(z.object({ ...counts, histogram })),
      'Sums of each value over all periods, the largest first. Without `by`, at most one entry.',
    ),
    data: doc(
      z.array(z.object({ period: time('Start of the period.'), ...counts })),
      'One entry for each period and value with a count.',
    ),
  })
  .meta({ id: 'Stats' });
