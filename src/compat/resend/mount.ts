/**
 * The root mount: the wire format of Resend over the same core as `/v1`. An application written for Resend changes
 * only its base URL. Each file of this folder serves one noun: it translates requests for the core and the core's
 * results for clients. The rules are those of `/v1`. docs/moving-from-resend.md lists the differences.
 */
import type { Refusal } from '../../core/refusals.ts';
import { refuse } from '../../http/errors.ts';
import type { App, HttpServices } from '../../http/services.ts';
import { registerResendAttachments } from './attachments.ts';
import { registerResendDomains } from './domains.ts';
import { registerResendEmails } from './emails.ts';
import { NOT_OFFERED } from './wire/failures.ts';
import { registerResendKeys } from './keys.ts';
import { registerResendLogs } from './logs.ts';
import { registerResendMetrics } from './metrics.ts';
import { registerResendShare } from './share.ts';
import { registerResendSuppressions } from './suppressions.ts';
import { registerResendTemplates } from './templates.ts';
import { registerResendUsage } from './usage.ts';
import { registerResendWebhooks } from './webhooks.ts';
import { HIDDEN } from './wire/shapes.ts';

export function registerRootMount(app: App, services: HttpServices): void {
  registerResendEmails(app, services);
  registerResendShare(app, services);
  registerResendAttachments(app, services);
  registerResendMetrics(app, services);
  registerResendDomains(app, services);
  registerResendKeys(app, services);
  registerResendWebhooks(app, services);
  registerResendSuppressions(app, services);
  registerResendTemplates(app, services);
  registerResendLogs(app, services);
  registerResendUsage(app, services);
  for (const noun of NOT_OFFERED) {
    refuseAll(app, `/${noun}`, noun);
    refuseAll(app, `/${noun}/*`, noun);
  }
  refuseAll(app, '/domains/claim', 'claims of domains');
  refuseAll(app, '/domains/:id/claim', 'claims of domains');
  refuseAll(app, '/domains/:id/claim/verify', 'claims of domains');
  refuseAll(app, '/domains/claim/*', 'claims of domains');
  refuseAll(app, '/domains/claims', 'claims of domains');
  refuseAll(app, '/domains/claims/*', 'claims of domains');
  refuseAll(app, '/domains/:id/claims', 'claims of domains');
  refuseAll(app, '/domains/:id/claims/*', 'claims of domains');
  refuseAll(app, '/emails/receiving', 'received mail');
  refuseAll(app, '/emails/receiving/*', 'received mail');
}

/** Checks the key, too, so that a client with a wrong key gets that error first. */
function refuseAll(app: App, path: string, what: string): void {
  const refuses: Refusal = {
    refused: 'not_found',
    message: `This service sends transactional email and does not offer ${what.replace('-', ' ')}.`,
  };
  app.route({
    method: ['GET', 'POST', 'PUT', 'PATCH', 'DELETE'],
    url: path,
    config: { access: 'any_key', withinDomain: true, refuses },
    schema: HIDDEN,
    handler: (_request, reply) => refuse(reply, refuses),
  });
}
