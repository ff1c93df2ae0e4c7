/**
 * Registers the routes of all rooms, in the order in which the API documents them. The first endpoint of a noun needs a
 * line here.
 */
import { registerEmailBatchRoute, registerSendRoute } from '../accept/routes.ts';
import { registerCancellationRoute } from '../emails/cancellation/routes.ts';
import { registerEmailRoutes } from '../emails/routes.ts';
import { registerEmailInspectionRoutes } from '../emails/inspection/routes.ts';
import { registerEvidenceRoutes } from '../emails/evidence/routes.ts';
import { registerShareRoutes } from '../emails/share-routes.ts';
import { registerEventRoutes } from '../events/routes.ts';
import { registerRecipientListRoute } from '../emails/recipient/list-routes.ts';
import { registerRecipientRoute } from '../emails/recipient/routes.ts';
import { registerAddressLogRoute } from '../emails/address-log/routes.ts';
import { registerStatsRoutes } from '../stats/routes.ts';
import { registerSnoozeRoutes } from '../findings/routes.ts';
import { registerQueueRoutes } from '../delivery/queue-control/routes.ts';
import { registerDmarcRoutes } from '../domains/dmarc/routes.ts';
import { registerDomainRoutes } from '../domains/routes.ts';
import { registerConnectionRoute, registerPublicationRoute } from '../go-live/routes.ts';
import { registerWebhookRoutes } from '../webhooks/routes.ts';
import { registerSuppressionRoutes } from '../suppressions/routes.ts';
import { registerSuppressionFileRoutes } from '../suppressions/file-routes.ts';
import { registerTemplateRoutes } from '../templates/routes.ts';
import { registerUnsubscribeRoutes } from '../suppressions/unsubscribe-routes.ts';
import { registerTrackingRoutes } from '../tracking/routes.ts';
import { registerKeyRoutes } from '../accounts/keys/routes.ts';
import { registerProjectRoutes } from '../accounts/projects/routes.ts';
import { registerLimitRoutes } from '../accounts/limits/routes.ts';
import { registerSessionRoutes } from '../accounts/sessions/routes.ts';
import { registerTotpRoutes } from '../accounts/sessions/totp-routes.ts';
import { registerOidcRoutes } from '../accounts/oidc/routes.ts';
import { registerPasskeyRoutes } from '../accounts/passkeys/routes.ts';
import { registerPolicyRoutes } from '../accounts/sessions/policy-routes.ts';
import { registerMemberRoutes } from '../accounts/members/routes.ts';
import { registerAuditRoutes } from '../accounts/audit/routes.ts';
import { registerOperatorRoutes } from '../operator/routes.ts';
import { registerReconciliationRoutes } from '../reconciliation/routes.ts';
import { registerStatusRoute, registerVariablesRoute } from '../operator/status-routes.ts';
import { registerDoctorRoutes } from '../doctor/reports/routes.ts';
import { registerProjectSettingRoutes } from '../accounts/projects/settings-routes.ts';
import { registerResumeRoute } from '../reputation/routes.ts';
import { registerInboundRoutes } from '../inbound/routes.ts';
import { registerProviderBlockRoutes } from '../delivery/blocks/routes.ts';
import { registerTlsResultRoutes } from '../delivery/route/tls-result-routes.ts';
import { registerReturnPathHostRoutes } from '../domains/return-path-host-routes.ts';
import { registerRetentionRoutes } from '../retention/routes.ts';
import { registerHoldRoutes } from '../backup/hold-routes.ts';
import { registerViewRoutes } from '../accounts/members/view-routes.ts';
import { registerRequestRoutes } from '../requests/routes.ts';
import { registerServiceRoutes } from './service-routes.ts';
import { registerDashboardRoutes } from './dashboard/routes.ts';
import type { App, HttpServices } from './services.ts';

/** @param timeouts limit uploads */
export function registerAllRoutes(
  app: App,
  services: HttpServices,
  timeouts: { silenceMs: number },
): void {
  registerSendRoute(app, services);
  registerEmailRoutes(app, services);
  registerCancellationRoute(app, services);
  registerEmailInspectionRoutes(app, services);
  registerShareRoutes(app, services);
  registerEvidenceRoutes(app, services);
  registerEventRoutes(app, services);
  registerAddressLogRoute(app, services);
  registerRecipientListRoute(app, services);
  registerRecipientRoute(app, services);
  registerStatsRoutes(app, services);
  registerSnoozeRoutes(app, services);
  registerQueueRoutes(app, services);
  registerEmailBatchRoute(app, services);
  registerDomainRoutes(app, services);
  registerPublicationRoute(app, services);
  registerDmarcRoutes(app, services);
  registerWebhookRoutes(app, services);
  registerSuppressionRoutes(app, services);
  registerSuppressionFileRoutes(app, services, timeouts);
  registerTemplateRoutes(app, services);
  registerUnsubscribeRoutes(app, services);
  registerTrackingRoutes(app, services);
  registerKeyRoutes(app, services);
  registerProjectRoutes(app, services);
  registerLimitRoutes(app, services);
  registerConnectionRoute(app, services);
  registerSessionRoutes(app, services);
  registerTotpRoutes(app, services);
  registerOidcRoutes(app, services);
  registerPasskeyRoutes(app, services);
  registerPolicyRoutes(app, services);
  registerMemberRoutes(app, services);
  registerAuditRoutes(app, services);
  registerOperatorRoutes(app, services);
  registerReconciliationRoutes(app, services);
  registerStatusRoute(app, services);
  registerVariablesRoute(app, services);
  registerDoctorRoutes(app, services);
  registerProjectSettingRoutes(app, services);
  registerResumeRoute(app, services);
  registerInboundRoutes(app, services);
  registerProviderBlockRoutes(app, services);
  registerTlsResultRoutes(app, services);
  registerReturnPathHostRoutes(app, services);
  registerRetentionRoutes(app, services);
  registerHoldRoutes(app, services);
  registerViewRoutes(app, services);
  registerRequestRoutes(app, services);
  registerServiceRoutes(app, services);
  registerDashboardRoutes(app, services);
}
