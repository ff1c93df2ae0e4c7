/** Routes of DMARC reports: what receivers reported about a domain, and the next policy (dmarc.ts). */
import { z } from 'zod';
import { isRefusal } from '../../core/refusals.ts';
import { callerOf } from '../../http/access.ts';
import { refuse } from '../../http/errors.ts';
import { doc, failures, idParams, time } from '../../http/schemas.ts';
import type { App, HttpServices } from '../../http/services.ts';
import type { DmarcStatus } from './dmarc.ts';
import { DMARC_STATES } from './dmarc-progress.ts';

export function registerDmarcRoutes(app: App, { domains }: HttpServices): void {
  app.get('/v1/domains/:id/dmarc', {
    config: { withinDomain: true },
    schema: {
      summary: 'Get the DMARC status of a domain',
      description:
        'Looks up the DMARC record, sums the aggregate reports of two weeks that receivers sent to ' +
        '`report_address`, and proposes the next policy: none, quarantine, reject. Nothing is changed.',
      operationId: 'getDomainDmarc',
      tags: ['Domains'],
      params: idParams('domain'),
      response: { 200: dmarcStatus, ...failures(404) },
    },
    handler: async (request, reply) => {
      const found = await domains.dmarc(callerOf(request), request.params.id);
      return isRefusal(found) ? refuse(reply, found) : toWire(found);
    },
  });
}

function toWire({ state, message, record, policy, proposal, reportAddress, totals }: DmarcStatus) {
  return {
    object: 'dmarc_status' as const,
    state,
    message,
    record,
    policy,
    proposal,
    report_address: reportAddress,
    reports: totals && {
      count: totals.reports,
      organizations: totals.organizations,
      days: totals.days,
      first_at: totals.firstAt?.toISOString() ?? null,
      last_at: totals.lastAt?.toISOString() ?? null,
      sources: [...totals.sources],
    },
  };
}

const STATE =
  'What the reports allow. `ready`: the proposal is safe by them. `others_fail`: it is safe if the failing ' +
  'addresses do not send for you. `own_mail_fails`: repair that first. `collecting`: there are too few reports yet. ' +
  '`no_reports`: none has arrived. `inherited`: the domain above publishes the policy.';

const messages = z.int().min(0);

const dmarcStatus = z
  .object({
    object: z.literal('dmarc_status'),
    state: doc(z.enum(DMARC_STATES), STATE),
    message: z.string().describe('What the reports say, and what to do.'),
    record: doc(
      z.string().nullable(),
      'Record in DNS, or null when receivers use none.',
      'v=DMARC1; p=none; rua=mailto:dmarc@send.acme.com',
    ),
    policy: doc(
      z.string().nullable(),
      'Policy of the record, or null when it has no valid one.',
      'none',
    ),
    proposal: doc(
      z.string().nullable(),
      'Record with the next policy, to publish by hand, or null when it is too early.',
      'v=DMARC1; p=quarantine; rua=mailto:dmarc@send.acme.com',
    ),
    report_address: doc(
      z.string(),
      'Address at which this service receives reports about the domain.',
      'dmarc@send.acme.com',
    ),
    reports: z
      .object({
        count: z.int().min(0),
        organizations: z.int().min(0).describe('Number of receivers that sent reports.'),
        days: z.int().min(0).describe('Number of days with a report.'),
        first_at: time('Begin of the earliest report.').nullable(),
        last_at: time('End of the latest report.').nullable(),
        sources: z
          .array(z.object({ ip: z.string(), passed: messages, failed: messages }))
          .describe('Addresses that sent messages, those with most failed messages first.'),
      })
      .nullable()
      .describe('Reports of two weeks under the policy of today, or null when they were not read.'),
  })
  .meta({ id: 'DmarcStatus', description: 'DMARC record, reports and proposal of a domain.' });
