/** Schemas of the operator's project routes. */
import { z } from 'zod';
import { alert, alertRule, alertRuleChange } from '../../reputation/schemas.ts';
import { parsePeriodH } from '../../core/retention.ts';
import { SET_CATEGORIES } from './settings-store.ts';
import { entityTag, environment, idSchema, listOf, parsed, time } from '../../http/schemas.ts';
import { MIB } from '../../lib/units.ts';

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
    reputation_alert: alertRule,
    warnings: z.array(alert),
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
    reputation_alert: alertRule,
    warnings: z.array(alert).describe('Domains above a threshold.'),
    etag: entityTag,
  })
  .meta({ id: 'ProjectSettings' });

const periodWrite = (description: string) =>
  parsed(parsePeriodH, 'must be days or hours, such as 7d or 36h, at least a day')
    .nullable()
    .optional()
    .meta({ description, examples: ['7d'] });

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
      .min(32 * MIB)
      .max(1e9 * MIB)
      .nullable()
      .optional()
      .describe('Maximum of stored mail in bytes, at least 32 MB. Null restores the default.'),
    content: periodWrite('Retention of html, text and attachments. Null restores the default.'),
    metadata: periodWrite('Retention of emails and their timeline. Null restores the default.'),
    reputation_alert: alertRuleChange.optional(),
  })
  .meta({ id: 'ProjectSettingsChange' });
