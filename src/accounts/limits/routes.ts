/** Routes of limits: read the limits of the caller's project and environment. Reading counts towards no limit. */
import { z } from 'zod';
import { domainCapacity } from '../../domains/domain-store.ts';
import { type ListedLimit, listLimits } from './limit-store.ts';
import { findRetention } from '../../retention/retention-store.ts';
import { readStorage } from '../storage/storage-store.ts';
import { type AlertRule, effectiveAlertRule } from '../../reputation/alert.ts';
import { findAlertRule } from '../../reputation/reputation-store.ts';
import { callerOf } from '../../http/access.ts';
import { doc, failures } from '../../http/schemas.ts';
import type { App, HttpServices } from '../../http/services.ts';

const CATEGORIES = [
  'sending',
  'recipients',
  'dry_runs',
  'domains',
  'verification',
  'webhooks',
] as const;

const COUNTED = {
  sending: 'accepted emails',
  recipients: 'recipients of accepted emails',
  dry_runs: 'dry runs',
  domains: 'added domains',
  verification: 'verifications of domains',
  webhooks: 'tests and replays of webhooks',
} as const satisfies Record<(typeof CATEGORIES)[number], string>;

export function registerLimitRoutes(app: App, { db, config }: HttpServices): void {
  app.get('/v1/limits', {
    schema: {
      summary: 'Read the limits',
      description:
        'Returns the rate limits of this project and environment, with what remains in the current window, and the ' +
        'limits on domains, stored mail, retention, bounces and complaints. The operator sets them.',
      operationId: 'getLimits',
      tags: ['Projects'],
      response: { 200: limits, ...failures() },
    },
    handler: async (request) => {
      const caller = callerOf(request);
      const configuredLimits = CATEGORIES.map(
        (name) => [name, config.limits[settingOf(name)]] as const,
      );
      const [listed, domains, own, storage, ownRule] = await Promise.all([
        listLimits(db, caller, configuredLimits),
        domainCapacity(db, { ...caller, name: '' }, config.domainsMax),
        findRetention(db, caller.projectId),
        readStorage(db, caller.projectId),
        findAlertRule(db, caller.projectId),
      ]);
      const metadata = shortestPeriod(own.metadataH, config.retention.metadataH);
      const content = shortestPeriod(own.contentH, config.retention.contentH, metadata);
      return {
        object: 'limits' as const,
        limits: listed.map(limitToWire),
        domains: { max: domains.max, used: domains.used },
        storage: { max_bytes: storage.maxBytes, used_bytes: storage.usedBytes },
        retention: { content_hours: content, metadata_hours: metadata },
        reputation: reputationToWire(effectiveAlertRule(ownRule)),
      };
    },
  });
}

function reputationToWire({ isOn, bouncesPpm, complaintsPpm, emailsMin, pauses }: AlertRule) {
  return {
    on: isOn,
    bounces: bouncesPpm / 1_000_000,
    complaints: complaintsPpm / 1_000_000,
    min: emailsMin,
    pauses,
  };
}

/** Dry runs have the limit of sending. */
function settingOf(category: (typeof CATEGORIES)[number]) {
  return category === 'dry_runs' ? 'sending' : category;
}

function shortestPeriod(...hours: (number | null)[]): number | null {
  const some = hours.filter((one) => one !== null);
  return some.length === 0 ? null : Math.min(...some);
}

function limitToWire({ category, isOwn, limit, windowS, remaining, resetS }: ListedLimit) {
  return {
    category,
    counts: COUNTED[category],
    limit,
    window_s: windowS,
    remaining,
    reset_s: resetS,
    is_own: isOwn,
    variable: `LETTERHAUS_LIMIT_${settingOf(category).toUpperCase()}`,
  };
}

const limit = z
  .object({
    category: doc(
      z.enum(CATEGORIES),
      'Category of `letterhaus projects set-limit --category`. `dry_runs` has the limit of `sending`.',
    ),
    counts: z
      .string()
      .meta({ description: 'Unit that the limit counts.', examples: ['accepted emails'] }),
    limit: z.int().meta({ description: 'Maximum per window.', examples: [100] }),
    window_s: z.int().meta({ description: 'Length of a window, in seconds.', examples: [60] }),
    remaining: z
      .int()
      .meta({ description: 'Requests or recipients left in this window.', examples: [97] }),
    reset_s: z.int().meta({ description: 'Seconds until the window ends.', examples: [12] }),
    is_own: z.boolean().describe('True when the limit was set for this project.'),
    variable: z.string().meta({
      description: 'Variable with the default for all projects.',
      examples: ['LETTERHAUS_LIMIT_SENDING'],
    }),
  })
  .meta({ id: 'Limit' });

const period = (description: string) => doc(z.int().nullable(), description, 1080);

const limits = z
  .object({
    object: z.literal('limits'),
    limits: z
      .array(limit)
      .describe('Rate limits. `recipients` is included only if that limit is set.'),
    domains: z.object({
      max: z
        .int()
        .meta({ description: 'Maximum number of domains in each environment.', examples: [1000] }),
      used: z.int().meta({ description: 'Number of domains in this environment.', examples: [3] }),
    }),
    storage: doc(
      z.object({
        max_bytes: doc(
          z.int().nullable(),
          'Maximum in bytes, or null without one.',
          10_737_418_240,
        ),
        used_bytes: z.int().meta({
          description:
            'Bytes of stored and scheduled emails of both environments, with their recipients.',
          examples: [52_428_800],
        }),
      }),
      'Stored mail and its maximum. Emails above the maximum are refused with 409 `conflict`.',
    ),
    retention: z.object({
      content_hours: period(
        'Retention of html, text and attachments in hours, or null without a limit.',
      ),
      metadata_hours: period(
        'Retention of emails and their timeline in hours, or null without a limit.',
      ),
    }),
    reputation: doc(
      z.object({
        on: z.boolean().describe('True when alerts are raised for this project.'),
        bounces: z.number().meta({ description: 'Share of bounces.', examples: [0.05] }),
        complaints: z.number().meta({ description: 'Share of complaints.', examples: [0.003] }),
        min: z.int().meta({
          description: 'Number of recipients of 24 hours below which no alert is raised.',
          examples: [500],
        }),
        pauses: z.boolean().describe('True when an alert puts new mail of the domain on hold.'),
      }),
      'Shares of the recipients of 24 hours above which a reputation alert is raised.',
    ),
  })
  .meta({ id: 'Limits' });
