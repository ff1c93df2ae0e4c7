/** Schemas of the queue report (delivery/queue-control/queue-report.ts) and of the changes. */
import { z } from 'zod';
import { HOLDERS, QUEUE_LIMITS } from './queue-report.ts';
import { LIMIT_SOURCES } from '../shaping/settings.ts';
import { doc, environment, idSchema, label, shown, time } from '../../http/schemas.ts';

const count = (description: string, example: number) =>
  z.int().meta({ description, examples: [example] });

const counts = {
  waiting: count('Number of recipients that have not ended.', 340),
  with_workers: count('Number of waiting recipients in the memory of workers.', 12),
  due: count('Number of waiting recipients that are due and not claimed.', 28),
  held: count('Number of waiting recipients on hold.', 0),
  oldest_due_at: time('Due time of the oldest due recipient, or null when none is due.').nullable(),
  next_due_at: time(
    'Earliest due time of a recipient not on hold, possibly in the past, or null without such a ' +
      'recipient.',
  ).nullable(),
};

const setting = z.object({
  name: z.string().meta({
    description: 'Name of the setting in the file of LETTERHAUS_SHAPING.',
    examples: ['connections'],
  }),
  value: doc(z.number().nullable(), 'Value of the setting, or null without a limit.', 5),
  source: doc(
    z.enum(LIMIT_SOURCES),
    'Source of the value. `built_in`: default for all providers. `built_in_provider`: default for this ' +
      'provider. `file` and `file_provider`: set in the file of LETTERHAUS_SHAPING, for all providers or ' +
      'for this one.',
  ),
  path: z.string().meta({
    description:
      'Place of the setting in the file of LETTERHAUS_SHAPING, even if the file does not have it.',
    examples: ['providers.google.connections'],
  }),
});

const provider = {
  provider: z.string().meta({
    description: 'Operator of the mail servers, or the domain until its mail servers are known.',
    examples: ['google'],
  }),
  ...counts,
  state: doc(
    z.enum(['open', 'full', 'slowed', 'suspended']).nullable(),
    'State that workers reported a few seconds ago. `full`: all permitted connections are in use, or all messages of the configured rate. ' +
      '`slowed`: the provider asked for less mail. `suspended`: its servers open no session, or refuse us. Null ' +
      'when no worker reported a state.',
  ),
  state_until: time('End of the suspension or slowdown, or null without one.').nullable(),
  connections: z
    .int()
    .nullable()
    .describe(
      'Number of open connections to the provider, for mail of all projects, or null when not reported.',
    ),
  connections_max: z
    .int()
    .nullable()
    .describe('Number of permitted connections now, or null when not reported.'),
  held_by: doc(
    z.array(z.enum(HOLDERS)),
    'Why mail is on hold, from a sample. `operator`: somebody put it on hold. `pause`: its sending domain is ' +
      'paused. Empty when no mail is on hold.',
  ),
  paused_domains: z.array(z.string()).meta({
    description: 'Paused sending domains of the mail on hold.',
    examples: [['acme.com']],
  }),
  limit: doc(
    z
      .object({
        name: doc(
          z.enum(QUEUE_LIMITS),
          'Name of the limit. `hold`: all mail is on hold. `suspension`, `rate`, `connections`: limits of the ' +
            'provider. `attempt`: workers deliver the mail. `retry`: the next attempt is not due. `turn`: other ' +
            'mail is served first.',
        ),
        message: z.string().meta({
          description: 'One sentence about the limit, with its figure.',
          examples: ['All 5 connections to google are in use, of 5 allowed.'],
        }),
        setting: setting.nullable().describe('Setting that causes the limit, or null without one.'),
      })
      .nullable(),
    'Limit that applies, or null when no mail waits.',
  ),
};

const SCOPE_HELP =
  'Scope of the request. `project`: the project and environment of the caller. `organization`: all ' +
  'projects in both environments, for members only.';
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
    selection: doc(z.string(), 'Selection of recipients.', 'provider:hoster.example'),
    found: count('Number of matching recipients found so far.', 40),
    busy: count(
      'Number of matching recipients that a worker has claimed. They are not dropped.',
      2,
    ),
    changed: count('Number of matching recipients that are on hold now and will be dropped.', 38),
    is_complete: z
      .boolean()
      .describe('True when the whole queue was searched. Otherwise the rest follows.'),
    created_at: time('Time of the request.'),
    drops_at: time('End of the minute in which the drop can be undone.'),
    undone_at: time('Time of the undo, or null without one.').nullable(),
  })
  .meta({ id: 'QueueDrop' });

export const queueDrop = drop;

export const queue = z
  .object({
    object: z.literal('queue'),
    measured_at: time('Time of the count.'),
    is_estimate: doc(
      z.boolean(),
      'True when the counts are estimated from a sample, above about 100,000 waiting recipients.',
    ),
    ...counts,
    providers: z
      .array(z.object(provider))
      .describe('Providers with the most mail first, at most 100.'),
    has_more: z.boolean().describe('True when mail waits for more providers.'),
    projects: doc(
      z.array(
        z.object({
          project_id: idSchema('The project.'),
          name: z.string().meta({ examples: ['Shop'] }),
          environment,
          ...counts,
        }),
      ),
      'Waiting mail by project. A session sees all projects of the organization, a key only its own.',
    ),
    drops: z.array(drop).describe('Drops that can still be undone, newest first.'),
  })
  .meta({ id: 'Queue' });

export const queueProvider = z
  .object({
    object: z.literal('queue_provider'),
    measured_at: time('Time of the count.'),
    is_estimate: z.boolean(),
    ...provider,
    settings: doc(z.array(setting), 'Settings in effect. Empty for test mail, which is simulated.'),
    answers: doc(
      z.array(
        z.object({
          at: time('End of the attempt.'),
          email_id: idSchema('The email.'),
          recipient: z.string().meta({ examples: ['jo@hoster.example'] }),
          attempts: count('Number of attempts so far.', 3),
          code: doc(z.int().nullable(), 'Reply code, or null when no server replied.', 451),
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
  email_id: idSchema('Selects the recipients of this email.').optional(),
  domain: doc(
    z.string().max(253).optional(),
    'Selects recipients at this domain.',
    'hoster.example',
  ),
  provider: doc(
    label(500).optional(),
    'Selects mail to this provider, as named in the queue.',
    'google',
  ),
  all: z
    .literal(true)
    .optional()
    .describe('Selects all mail in the scope. Cannot be combined with the other selectors.'),
  scope,
};

export const queueSelection = z
  .strictObject(selection)
  .meta({ id: 'QueueSelection', minProperties: 1 });

export const from = doc(
  z
    .string()
    .regex(/^[0-9a-f-]{36}\/[0-9a-f-]{36}\/\d{1,4}$/, 'must be the `next` of a response')
    .optional(),
  '`next` of the previous response, to continue in a long queue.',
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
    found: count('Number of matching recipients.', 40),
    busy: count('Number of matching recipients that a worker has claimed.', 2),
    changed: count('Number of changed recipients.', 38),
    next: doc(
      z.string().nullable(),
      'Position to continue from: repeat the request with it as `from`. Null when the whole queue was ' +
        'searched.',
    ),
  })
  .meta({ id: 'QueueChange' });
