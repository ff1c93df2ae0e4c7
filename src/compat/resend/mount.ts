/**
 * The root mount: the wire format of Resend over the same core as `/v1`. An application written for Resend changes
 * only its base URL. Each file of this folder serves one noun: it translates requests for the core and the core's
 * results for clients. The rules of `/v1` apply. docs/moving-from-resend.md lists the differences.
 */
import type { Refusal } from '../../core/refusals.ts';
import type { RootMount } from '../../http/app.ts';
import { refuse } from '../../http/errors.ts';
import type { App, HttpServices } from '../../http/services.ts';
import { registerResendAttachments } from './attachments.ts';
import { registerResendDomains } from './domains.ts';
import { registerResendEmails } from './emails.ts';
import { packByteArrays } from './wire/byte-arrays.ts';
import { isOfRootMount, NOT_OFFERED, resendFailure } from './wire/failures.ts';
import { registerResendKeys } from './keys.ts';
import { registerResendLogs } from './logs.ts';
import { registerResendMetrics } from './metrics.ts';
import { registerResendShare } from './share.ts';
import { registerResendSuppressions } from './suppressions.ts';
import { registerResendTemplates } from './templates.ts';
import { registerResendUsage } from './usage.ts';
import { registerResendWebhooks } from './webhooks.ts';
import { HIDDEN } from './wire/shared-schemas.ts';

/** Features of Resend that this service does not offer, with all their paths. */
const MISSING_FEATURES: readonly (readonly [feature: string, paths: readonly string[]])[] = [
  ...NOT_OFFERED.map(
    (segment) => [segment.replace('-', ' '), [`/${segment}`, `/${segment}/*`]] as const,
  ),
  [
    'claims of domains',
    [
      '/domains/claim',
      '/domains/claim/*',
      '/domains/claims',
      '/domains/claims/*',
      '/domains/:id/claim',
      '/domains/:id/claim/verify',
      '/domains/:id/claims',
      '/domains/:id/claims/*',
    ],
  ],
  ['received mail', ['/emails/receiving', '/emails/receiving/*']],
];

export const RESEND_MOUNT: RootMount = {
  format: {
    hasPath: isOfRootMount,
    renderFailure: resendFailure,
    rewriteJson: packByteArrays,
  },
  registerRoutes,
};

function registerRoutes(app: App, services: HttpServices): void {
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
  for (const [feature, paths] of MISSING_FEATURES) {
    for (const path of paths) refusePath(app, path, feature);
  }
}

/** Refuses requests with a valid key. A client with a wrong key gets that error first. */
function refusePath(app: App, path: string, feature: string): void {
  const refusal: Refusal = {
    refused: 'not_found',
    message: `This service sends transactional email and does not offer ${feature}.`,
  };
  app.route({
    method: ['GET', 'POST', 'PUT', 'PATCH', 'DELETE'],
    url: path,
    config: { access: 'any_key', withinDomain: true, refuseAll: refusal },
    schema: HIDDEN,
    handler: (_request, reply) => refuse(reply, refusal),
  });
}
