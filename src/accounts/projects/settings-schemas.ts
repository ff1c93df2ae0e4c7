/** Schemas of the operator's project routes. */
import { z } from 'zod';
import { ALERT_KINDS, parsePercent } from '../../reputation/alert.ts';
import { parsePeriodH } from '../../core/retention.ts';
import { SET_CATEGORIES } from './settings-store.ts';
import { from } from '../../delivery/queue-control/schemas.ts';
import { environment, idSchema, listOf, time } from '../../http/schemas.ts';

const MEGABYTE = 1024 ** 2;

const share = (description: string) => z.string().meta({ description, examples: ['5%'] });

const rule = z.object({
  on: z.boolean().describe('Whether there are alerts.'),
  bounces: share('Of what ends in 24 hours.'),
  complaints: share('Of what ends in 24 hours.'),
  min: z.int().meta({ description: 'No alert below this number of emails.', examples: [500] }),
  pause: z.boolean().describe('New mail of a domain above a threshold is held.'),
});

const warning = z.object({
  about: z.literal('reputation'),
  environment,
  domain: z.string().meta({ description: 'The sending domain.', examples: ['acme.com'] }),
  kind: z.enum(ALERT_KINDS),
  rate: share('Its share.'),
  threshold: share('That of the project.'),
  count: z.int().describe('Bounces or complaints.'),
  ended: z.int().describe('Recipients that ended in 24 hours.'),
  since: time('Since when it is above the threshold.'),
  paused: z.boolean().describe('Its mail is held.'),
  message: z.string().describe('What is wrong, and what to do.'),
});

const storage = z.object({
  used_bytes: z.int().describe('Of stored and scheduled emails.'),
  max_bytes: z.int().nullable().describe('null: no maximum.'),
});

const project = z
  .object({
    object: z.literal('project'),
    id: idSchema('The project.'),
    name: z.string().meta({ examples: ['Default'] }),
    created_at: time('When it was made.'),
    reputation_alert: rule,
    warnings: z.array(warning),
    storage,
  })
  .meta({ id: 'InstallationProject' });

export const projectList = listOf('InstallationProjectList', project);

const category = z.enum(SET_CATEGORIES);
const limit = z.object({
  max: z
    .int()
    .min(1)
    .max(999_999_999)
    .meta({ description: 'How many.', examples: [5000] }),
  window_s: z
    .int()
    .min(1)
    .max(86_400)
    .meta({ description: 'In how many seconds.', examples: [60] }),
});

const period = (description: string) => z.string().meta({ description, examples: ['45d'] });

export const settings = z
  .object({
    object: z.literal('project_settings'),
    project_id: idSchema('The project.'),
    name: z.string().meta({ examples: ['Default'] }),
    limits: z.array(
      z.object({
        environment,
        category,
        limit,
        is_own: z.boolean().describe('Set for this project.'),
      }),
    ),
    domains_max: z.int().describe('How many domains it may have in each environment.'),
    storage,
    content: period(
      'How long it keeps html, text and attachments; null: as the installation.',
    ).nullable(),
    metadata: period(
      'How long it keeps emails with their timeline; null: as the installation.',
    ).nullable(),
    kept: z
      .object({
        content: period('Of content; `ever`: always.'),
        metadata: period('Of metadata; `ever`: always.'),
      })
      .describe('How long mail is kept in effect.'),
    reputation_alert: rule,
    warnings: z.array(warning).describe('Domains above a threshold.'),
  })
  .meta({ id: 'ProjectSettings' });

const parsed = <Value>(parse: (text: string) => Value | null, message: string) =>
  z.string().transform((text, context) => {
    const value = parse(text);
    if (value !== null) return value;
    context.addIssue({ code: 'custom', message });
    return z.NEVER;
  });

const periodWrite = (description: string) =>
  parsed(parsePeriodH, 'must be days or hours, such as 7d or 36h, at least a day')
    .nullable()
    .optional()
    .meta({ description, examples: ['7d'] });

const shareWrite = (description: string) =>
  parsed(parsePercent, 'must be a share, such as 5% or 0.3%')
    .nullable()
    .optional()
    .meta({ description, examples: ['5%'] });

export const settingsChange = z
  .strictObject({
    limits: z
      .array(z.strictObject({ environment, category, limit: limit.nullable() }))
      .max(20)
      .optional()
      .describe('Rate limits to set; null: the default.'),
    domains_max: z.int().min(1).max(1_000_000).nullable().optional(),
    storage_max_bytes: z
      .int()
      .min(32 * MEGABYTE)
      .max(1e9 * MEGABYTE)
      .nullable()
      .optional()
      .describe('At least 32 MB.'),
    content: periodWrite('How long html, text and attachments are kept.'),
    metadata: periodWrite('How long emails with their timeline are kept.'),
    reputation_alert: z
      .strictObject({
        on: z.boolean().optional(),
        bounces: shareWrite('Of what ends in 24 hours.'),
        complaints: shareWrite('Of what ends in 24 hours.'),
        min: z.int().min(1).max(1_000_000).nullable().optional(),
        pause: z.boolean().optional(),
      })
      .optional()
      .describe('null: the default.'),
  })
  .meta({ id: 'ProjectSettingsChange' });

export const resumeRequest = z.strictObject({ from }).meta({ id: 'ProjectResumeRequest' });

export const resumed = z
  .object({
    object: z.literal('project_resumed'),
    domains: z.array(z.string()).describe('Domains whose pause has ended.'),
    released: z.int().describe('Recipients that are released.'),
    next: z.string().nullable().describe('Where to go on; null: all is released.'),
  })
  .meta({ id: 'ProjectResumed' });
