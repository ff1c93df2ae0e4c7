/** Schemas of reputation alerts, their rule, and the end of their pauses. */
import { z } from 'zod';
import { from } from '../delivery/queue-control/schemas.ts';
import { environment, parsed, time } from '../http/schemas.ts';
import { ALERT_KINDS, parsePercent } from './alert.ts';

const share = (description: string) => z.string().meta({ description, examples: ['5%'] });

export const alertRule = z.object({
  on: z.boolean().describe('True when alerts are on.'),
  bounces: share('Share of bounces among recipients that ended in 24 hours.'),
  complaints: share('Share of complaints among recipients that ended in 24 hours.'),
  min: z
    .int()
    .meta({ description: 'Minimum number of ended recipients for an alert.', examples: [500] }),
  pause: z.boolean().describe('True when new mail of a domain above a threshold is put on hold.'),
});

export const alert = z.object({
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

const shareWrite = (description: string) =>
  parsed(parsePercent, 'must be a share, such as 5% or 0.3%')
    .nullable()
    .optional()
    .meta({ description, examples: ['5%'] });

export const alertRuleChange = z
  .strictObject({
    on: z.boolean().optional(),
    bounces: shareWrite('Share of bounces among recipients that ended in 24 hours.'),
    complaints: shareWrite('Share of complaints among recipients that ended in 24 hours.'),
    min: z.int().min(1).max(1_000_000).nullable().optional(),
    pause: z.boolean().optional(),
  })
  .describe('Reputation alert. Null fields restore the default.');

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
