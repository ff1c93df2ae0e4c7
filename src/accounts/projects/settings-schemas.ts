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
  on: z.boolean().describe('True when alerts are on.'),
  bounces: share('Share of bounces among recipients that ended in 24 hours.'),
  complaints: share('Share of complaints among recipients that ended in 24 hours.'),
  min: z
    .int()
    .meta({ description: 'Minimum number of ended recipients for an alert.', examples: [500] }),
  pause: z.boolean().describe('True when new mail of a domain above a threshold is put on hold.'),
});

const warning = z.object({
  about: z.literal('reputation'),
  environment,
  domain: z.string().meta({ description: 'The sending domain.', examples: ['acme.com'] }),
  kind: z.enum(ALERT_KINDS),
  rate: share('Current share.'),
  threshold: share('Threshold of the project.'),
  count: z.int().describe('Number of bounces or complaints.'),
  ended: z.int().describe('Number of recipients that ended in 24 hours.'),
  since: time('Time at which the share exceeded the threshold.'),
  paused: z.boolean().describe('True when the mail of the domain is on hold.'),
  message: z.string().describe('One sentence that says what is wrong and what to do.'),
});

const storage = z.object({
  used_bytes: z.int().describe('Bytes of stored and scheduled emails.'),
  max_bytes: z.int().nullable().describe('Maximum in bytes, or null without one.'),
});

const project = z
  .object({
    object: z.literal('project'),
    id: idSchema('The project.'),
    name: z.string().meta({ examples: ['Default'] }),
    created_at: time('Time of creation.'),
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
    .meta({ description: 'Maximum per window.', examples: [5000] }),
  window_s: z
    .int()
    .min(1)
    .max(86_400)
    .meta({ description: 'Length of a window, in seconds.', examples: [60] }),
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
        is_own: z.boolean().describe('True when the limit was set for this project.'),
      }),
    ),
    domains_max: z.int().describe('Maximum number of domains in each environment.'),
    storage,
    content: period(
      "The project's retention of html, text and attachments, or null for the default.",
    ).nullable(),
    metadata: period(
      "The project's retention of emails and their timeline, or null for the default.",
    ).nullable(),
    kept: z
      .object({
        content: period('Retention of content, or `ever` without a limit.'),
        metadata: period('Retention of metadata, or `ever` without a limit.'),
      })
      .describe('Retention in effect.'),
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
      .describe('Rate limits to set. Null restores the default.'),
    domains_max: z.int().min(1).max(1_000_000).nullable().optional(),
    storage_max_bytes: z
      .int()
      .min(32 * MEGABYTE)
      .max(1e9 * MEGABYTE)
      .nullable()
      .optional()
      .describe('Maximum of stored mail in bytes, at least 32 MB. Null restores the default.'),
    content: periodWrite('Retention of html, text and attachments. Null restores the default.'),
    metadata: periodWrite('Retention of emails and their timeline. Null restores the default.'),
    reputation_alert: z
      .strictObject({
        on: z.boolean().optional(),
        bounces: shareWrite('Share of bounces among recipients that ended in 24 hours.'),
        complaints: shareWrite('Share of complaints among recipients that ended in 24 hours.'),
        min: z.int().min(1).max(1_000_000).nullable().optional(),
        pause: z.boolean().optional(),
      })
      .optional()
      .describe('Reputation alert. Null fields restore the default.'),
  })
  .meta({ id: 'ProjectSettingsChange' });

export const resumeRequest = z.strictObject({ from }).meta({ id: 'ProjectResumeRequest' });

export const resumed = z
  .object({
    object: z.literal('project_resumed'),
    domains: z.array(z.string()).describe('Domains whose pause has ended.'),
    released: z.int().describe('Number of released recipients.'),
    next: z
      .string()
      .nullable()
      .describe('Position to continue from, or null when all mail is released.'),
  })
  .meta({ id: 'ProjectResumed' });
