/**
 * `/usage` of the root mount. This service has no quotas: it shows the limit of sending for the period. `used` counts
 * the recipients whose outcome was determined in the period, in UTC.
 */
import type { LimitState } from '../../core/limits.ts';
import { domainCapacity } from '../../domains/domain-store.ts';
import { peekLimit } from '../../accounts/limits/limit-store.ts';
import { type EndedCounts, countEnded } from '../../reputation/reputation-store.ts';
import { callerOf } from '../../http/access.ts';
import type { App, HttpServices } from '../../http/services.ts';
import { HIDDEN } from './wire/shared-schemas.ts';
import { DAY_S } from '../../lib/units.ts';

/** Clients decode 32-bit numbers, some of them signed. More than this counts as unlimited. */
const COUNT_MAX = 2 ** 31 - 1;

export function registerResendUsage(app: App, { db, config }: HttpServices): void {
  app.get('/usage', {
    schema: HIDDEN,
    handler: async (request) => {
      const caller = callerOf(request);
      const [ended, sending, domains] = await Promise.all([
        countEnded(db, caller),
        peekLimit(db, { ...caller, category: 'sending' }, config.limits.sending),
        domainCapacity(db, { ...caller, name: '' }, 0),
      ]);
      return usageToResend(ended, sending, domains.used);
    },
  });
}

function usageToResend({ now, today, month }: EndedCounts, sending: LimitState, domains: number) {
  const [year, monthIndex, day] = [now.getUTCFullYear(), now.getUTCMonth(), now.getUTCDate()];
  const tomorrow = new Date(Date.UTC(year, monthIndex, day + 1));
  const nextMonth = new Date(Date.UTC(year, monthIndex + 1));
  const daysInMonth = new Date(Date.UTC(year, monthIndex + 1, 0)).getUTCDate();
  const unused = { used: 0, limit: 0 };
  return {
    object: 'usage' as const,
    emails: {
      daily: periodUsage(today, { days: 1, resetsAt: tomorrow, sending }),
      monthly: periodUsage(month, { days: daysInMonth, resetsAt: nextMonth, sending }),
    },
    // Features that this service does not have. Clients require the fields.
    contacts: unused,
    segments: unused,
    broadcasts: { used: 0, limit: null },
    ai_credits: { ...unused, next_increase_at: null },
    automation_runs: { ...unused, resets_at: nextMonth.toISOString() },
    domains: { used: domains, limit: null },
    rate_limit: { limit: clampCount(sending.limit), duration: `${sending.windowS}s` },
  };
}

function periodUsage(
  recipients: number,
  { days, resetsAt, sending }: { days: number; resetsAt: Date; sending: LimitState },
) {
  const used = clampCount(recipients);
  const limit = clampCount(Math.floor((sending.limit * days * DAY_S) / sending.windowS));
  return { used, limit, sent: used, received: 0, resets_at: resetsAt.toISOString() };
}

function clampCount(count: number): number {
  return Math.min(count, COUNT_MAX);
}
