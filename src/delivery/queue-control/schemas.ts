/** Schemas of the queue report (delivery/queue-control/report.ts) and of the changes. */
import { z } from 'zod';
import { QUEUE_LIMITS } from './report.ts';
import { LIMIT_SOURCES } from '../shaping/settings.ts';
import { doc, environment, idSchema, label, shown, time } from '../../http/schemas.ts';

const count = (description: string, example: number) =>
  z.int().meta({ description, examples: [example] });

const counts = {
  waiting: count('Recipients that have not ended.', 340),
  with_workers: count('Those of them in the memory of workers.', 12),
  due: count('Those of them that are due and not claimed.', 28),
  held: count('Those of them on hold.', 0),
  oldest_due_at: time('Due time of the oldest due recipient; null: none is due.').nullable(),
  next_due_at: time(
    'Earliest due time of a recipient not on hold, possibly in the past; null: there is none.',
  ).nullable(),
};

const setting = z.object({
  name: z.string().meta({ description: 'Name in the file.', examples: ['connections'] }),
  value: doc(z.number().nullable(), 'Null: no limit.', 5),
  source: doc(
    z.enum(LIMIT_SOURCES),
    '`built_in`: the default for all. `built_in_provider`: the default for this provider. `file` and ' +
      '`file_provider`: set in the file of LETTERHAUS_SHAPING, for all or for this provider.',
  ),
  path: z.string().meta({
    description: 'Place in the file of LETTERHAUS_SHAPING that sets it or would set it.',
    examples: ['providers.google.connections'],
  }),
});

const provider = {
  provider: z.string().meta({
    description:
      'The operator of the mail servers, or the domain until its mail servers are known.',
    examples: ['google'],
  }),
  ...counts,
  state: doc(
    z.enum(['open', 'full', 'slowed', 'suspended']).nullable(),
    'State that workers reported a few seconds ago. `full`: all permitted connections are busy. `slowed`: the ' +
      'provider asked for less mail. `suspended`: nothing is sent now. Null: no worker reported a state.',
  ),
  state_until: time('When the suspension or the slowdown ends.').nullable(),
  connections: z
    .int()
    .nullable()
    .describe('Connections open to the provider, for mail of all projects.'),
  connections_max: z.int().nullable().describe('Connections permitted now.'),
  limit: doc(
    z
      .object({
        name: doc(
          z.enum(QUEUE_LIMITS),
          '`hold`: all mail is on hold. `suspension`, `rate`, `connections`: the provider limits it. `attempt`: workers ' +
            'deliver it. `retry`: its next attempt is not due. `turn`: other mail is served first.',
        ),
        message: z.string().meta({
          description: 'One sentence, with the figure.',
          examples: ['All 5 connections to google are in use, of 5 allowed.'],
        }),
        setting: setting.nullable().describe('Setting that causes the limit; null: none.'),
      })
      .nullable(),
    'The limit that applies; null: nothing waits.',
  ),
};

const SCOPE_HELP =
  '`project`: the project and environment of the caller. `organization`: all projects, in both ' +
  'environments; only in a session.';
const scope = z.enum(['project', 'organization']).default('project').describe(SCOPE_HELP);

export const queueQuery = z.strictObject({ scope });

export const queueProviderParams = z.object({
  provider: label(500).meta({
    description: 'Name of the provider in the queue.',
    examples: ['google'],
  }),
});

const drop = z
  .object({
    object: z.literal('queue_drop'),
    id: idSchema('The drop.'),
    selection: doc(z.string(), 'The selection.', 'provider:hoster.example'),
    found: count('Matching recipients found so far.', 40),
    busy: count('Those of them that a worker has claimed; they are not dropped.', 2),
    changed: count('Those of them that are on hold now and will be dropped.', 38),
    is_complete: z
      .boolean()
      .describe('True when the whole queue was searched; false: the rest follows.'),
    created_at: time('When it was requested.'),
    drops_at: time('End of the time in which it can be undone.'),
    undone_at: time('When it was undone.').nullable(),
  })
  .meta({ id: 'QueueDrop' });

export const queueDrop = drop;

export const queue = z
  .object({
    object: z.literal('queue'),
    measured_at: time('When it was counted.'),
    is_estimate: doc(
      z.boolean(),
      'True when counted from a sample, beyond about 100,000 waiting recipients.',
    ),
    ...counts,
    providers: z
      .array(z.object(provider))
      .describe('Providers with the most mail first, up to 100.'),
    has_more: z.boolean().describe('True when mail waits for further providers.'),
    projects: doc(
      z.array(
        z.object({
          project_id: idSchema('The project.'),
          name: z.string().meta({ examples: ['Shop'] }),
          environment,
          ...counts,
        }),
      ),
      'All projects of the organization in a session; only its own with a key.',
    ),
    drops: z.array(drop).describe('Drops that can still be undone, newest first.'),
  })
  .meta({ id: 'Queue' });

export const queueProvider = z
  .object({
    object: z.literal('queue_provider'),
    measured_at: time('When it was counted.'),
    is_estimate: z.boolean(),
    ...provider,
    settings: doc(z.array(setting), 'Settings in effect; none for test mail, which is simulated.'),
    answers: doc(
      z.array(
        z.object({
          at: time('When the attempt ended.'),
          email_id: idSchema('The email.'),
          recipient: z.string().meta({ examples: ['jo@hoster.example'] }),
          attempts: count('Attempts so far.', 3),
          code: doc(z.int().nullable(), 'Null: no server replied.', 451),
          enhanced_code: shown(z.string().nullable(), '4.7.1'),
          message: z.string().meta({ examples: ['Greylisted, try again later'] }),
          mx: shown(z.string().nullable(), 'mx1.hoster.example'),
          ip: shown(z.string().nullable(), '192.0.2.7'),
        }),
      ),
      'Replies to waiting mail of the caller’s project and environment, newest first.',
    ),
  })
  .meta({ id: 'QueueProvider' });

const selection = {
  email_id: idSchema('The recipients of this email.').optional(),
  domain: doc(z.string().max(253).optional(), 'Recipients at this domain.', 'hoster.example'),
  provider: doc(label(500).optional(), 'Mail to this provider, as named in the queue.', 'google'),
  all: z
    .literal(true)
    .optional()
    .describe('Everything in the scope. Cannot be combined with the others.'),
  scope,
};

export const queueSelection = z
  .strictObject(selection)
  .meta({ id: 'QueueSelection', minProperties: 1 });

export const from = doc(
  z
    .string()
    .regex(/^[0-9a-f-]{36}\/[0-9a-f-]{36}\/\d{1,4}$/, 'must be the `next` of an answer')
    .optional(),
  '`next` of the previous answer, to continue in a long queue.',
  '0193e0b1-52c8-7d10-8f6e-2b9d41a7c3f0/0193f2a4-7c1e-7b3a-9d52-6f0e8c4b21aa/0',
);

export const queueChangeRequest = z
  .strictObject({ ...selection, from })
  .meta({ id: 'QueueChangeRequest', minProperties: 1 });

export const queueChange = z
  .object({
    object: z.literal('queue_change'),
    change: z.enum(['hold', 'release', 'retry']),
    selection: z.string().meta({ examples: ['provider:google'] }),
    found: count('Recipients that match.', 40),
    busy: count('Those of them that a worker has claimed.', 2),
    changed: count('Those of them that were changed.', 38),
    next: doc(
      z.string().nullable(),
      'Place to continue from: repeat the request with it as `from`. Null: the whole queue was searched.',
    ),
  })
  .meta({ id: 'QueueChange' });
