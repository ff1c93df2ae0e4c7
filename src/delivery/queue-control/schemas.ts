/** Schemas of the queue (delivery/queue-control/report.ts) and of its changes. */
import { z } from 'zod';
import { QUEUE_LIMITS } from './report.ts';
import { LIMIT_SOURCES } from '../shaping/settings.ts';
import { doc, environment, idSchema, label, shown, time } from '../../http/schemas.ts';

const count = (description: string, example: number) =>
  z.int().meta({ description, examples: [example] });

const counts = {
  waiting: count('Recipients that have not ended.', 340),
  with_workers: count('Of these, those that workers have in memory.', 12),
  due: count('Of these, those that could be tried now and are in the table.', 28),
  held: count('Of these, those that are held.', 0),
  oldest_due_at: time(
    'Since when the oldest of those that are due is due; null: none is.',
  ).nullable(),
  next_due_at: time(
    'When the first that is not held is due; it may have passed. Null: none.',
  ).nullable(),
};

const setting = z.object({
  name: z.string().meta({ description: 'As in the file.', examples: ['connections'] }),
  value: doc(z.number().nullable(), 'Null: no limit.', 5),
  source: doc(
    z.enum(LIMIT_SOURCES),
    '`built_in`: the default for all. `built_in_provider`: the default for this provider. `file`, ' +
      '`file_provider`: the same in the file of LETTERHAUS_SHAPING.',
  ),
  path: z.string().meta({
    description: 'Where the file of LETTERHAUS_SHAPING has it, or would replace it.',
    examples: ['providers.google.connections'],
  }),
});

const provider = {
  provider: z.string().meta({
    description: 'The operator of the mail servers; the domain while they are not known.',
    examples: ['google'],
  }),
  ...counts,
  state: doc(
    z.enum(['open', 'full', 'slowed', 'suspended']).nullable(),
    'As workers reported it a few seconds ago. `full`: all permitted connections are busy. `slowed`: it ' +
      'asked for less. `suspended`: nothing is sent at present. Null: nothing is unusual.',
  ),
  state_until: time('When the suspension or the slowdown ends.').nullable(),
  connections: z.int().nullable().describe('Open to the provider, for mail of everybody.'),
  connections_max: z.int().nullable().describe('Permitted at present.'),
  limit: doc(
    z
      .object({
        name: doc(
          z.enum(QUEUE_LIMITS),
          '`hold`: all of it is held. `suspension`, `rate`, `connections`: of the provider. `attempt`: workers ' +
            'deliver it. `retry`: it waits for its time. `turn`: others are served before.',
        ),
        message: z.string().meta({
          description: 'One sentence, with the figure.',
          examples: ['All 5 connections to google are in use, of 5 allowed.'],
        }),
        setting: setting.nullable().describe('What it follows from; null: from no setting.'),
      })
      .nullable(),
    'The limit that binds; null: nothing waits.',
  ),
};

const SCOPE_HELP =
  '`project`: the project and environment of the caller. `organization`: all of its projects, in both ' +
  'environments; only in a session.';
const scope = z.enum(['project', 'organization']).default('project').describe(SCOPE_HELP);

export const queueQuery = z.strictObject({ scope });

export const queueProviderParams = z.object({
  provider: label(500).meta({ description: 'As in the queue.', examples: ['google'] }),
});

const drop = z
  .object({
    object: z.literal('queue_drop'),
    id: idSchema('The drop.'),
    selection: doc(z.string(), 'What was selected.', 'provider:hoster.example'),
    found: count('Recipients that match, as far as they were looked at.', 40),
    busy: count('Of these, those that a worker holds: they are not dropped.', 2),
    changed: count('Of these, those that are held now and will be dropped.', 38),
    is_complete: z.boolean().describe('Whether all that match were looked at; the rest follows.'),
    created_at: time('When it was requested.'),
    drops_at: time('Until when it can be undone.'),
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
      'Counted from a sample, as beyond about 100,000 waiting recipients.',
    ),
    ...counts,
    providers: z.array(z.object(provider)).describe('Those with the most mail first, up to 100.'),
    has_more: z.boolean().describe('Whether mail waits for further providers.'),
    projects: doc(
      z.array(
        z.object({
          project_id: idSchema('The project.'),
          name: z.string().meta({ examples: ['Shop'] }),
          environment,
          ...counts,
        }),
      ),
      'In a session all projects of the organization, with a key its own.',
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
    settings: doc(z.array(setting), 'What is in effect; none for test mail, which is simulated.'),
    answers: doc(
      z.array(
        z.object({
          at: time('When the attempt ended.'),
          email_id: idSchema('The email.'),
          recipient: z.string().meta({ examples: ['jo@hoster.example'] }),
          attempts: count('So far.', 3),
          code: doc(z.int().nullable(), 'Null: no server replied.', 451),
          enhanced_code: shown(z.string().nullable(), '4.7.1'),
          message: z.string().meta({ examples: ['Greylisted, try again later'] }),
          mx: shown(z.string().nullable(), 'mx1.hoster.example'),
          ip: shown(z.string().nullable(), '192.0.2.7'),
        }),
      ),
      'To mail of the project and environment of the caller that waits for it, newest first.',
    ),
  })
  .meta({ id: 'QueueProvider' });

const selection = {
  email_id: idSchema('The recipients of this email.').optional(),
  domain: doc(z.string().max(253).optional(), 'Recipients at this domain.', 'hoster.example'),
  provider: doc(label(500).optional(), 'What waits for this provider, as in the queue.', 'google'),
  all: z.literal(true).optional().describe('Everything in the scope; instead of the others.'),
  scope,
};

export const queueSelection = z
  .strictObject(selection)
  .meta({ id: 'QueueSelection', minProperties: 1 });

/** Where a change of a large queue goes on. */
export const from = doc(
  z
    .string()
    .regex(/^[0-9a-f-]{36}\/[0-9a-f-]{36}\/\d{1,4}$/, 'must be the `next` of an answer')
    .optional(),
  '`next` of the answer before, to go on with a large queue.',
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
    busy: count('Of these, those that a worker holds.', 2),
    changed: count('Of these, those that were changed.', 38),
    next: doc(
      z.string().nullable(),
      'Null: all were looked at. Else repeat the request with it as `from`.',
    ),
  })
  .meta({ id: 'QueueChange' });
