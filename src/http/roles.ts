/**
 * The least role of a member for each operation of `/v1` in a session of the dashboard. An operation that is missing
 * here needs an API key. A test compares this table with the OpenAPI document, and the pages of the dashboard offer
 * what it allows (web/src/ui/allowed.tsx).
 *
 * - A viewer reads, except what could be used elsewhere: shared links make contents public.
 * - A developer sends, and changes templates and webhooks.
 * - An admin changes domains, keys, projects, suppressions, queued mail, and members other than owners.
 * - An owner may do everything. An owner of the first organization also runs the installation.
 */
import type { Role } from '../core/member-roles.ts';

const VIEWER_OPERATIONS = [
  'listEmails',
  'countEmails',
  'getEmail',
  'listEmailEvents',
  'getEmailContent',
  'previewEmail',
  'inspectEmail',
  'downloadEmailAttachment',
  'listEmailWebhookDeliveries',
  'diagnoseEmail',
  'getEmailCaseFile',
  'listEvents',
  'getRecipientLog',
  'listRecipients',
  'getRecipient',
  'getStats',
  'getQueue',
  'getQueueProvider',
  'listDomains',
  'getDomain',
  'getDomainDmarc',
  'listWebhooks',
  'getWebhook',
  'listWebhookDeliveries',
  'getWebhookDelivery',
  'getWebhookStatistics',
  'getWebhookReplay',
  'listTemplates',
  'getTemplate',
  'listTemplateVersions',
  'getTemplateVersion',
  'previewTemplate',
  'translateTemplate',
  'listSuppressions',
  'getSuppression',
  'listSuppressionHistory',
  'listProjects',
  'getConnection',
  'getLimits',
  'listSnoozes',
  'listMembers',
  'listViews',
  'saveView',
  'deleteView',
  'getSession',
  'endSession',
  'endAllSessions',
  'listSessions',
  'endOwnSession',
  'changePassword',
  'getTotp',
  'beginTotp',
  'confirmTotp',
  'removeTotp',
  'listPasskeys',
  'startPasskey',
  'addPasskey',
  'removePasskey',
] as const;

const DEVELOPER_OPERATIONS = [
  'sendEmail',
  'sendEmailBatch',
  'rescheduleEmail',
  'cancelEmail',
  'cancelEmails',
  'shareEmail',
  'createTemplate',
  'updateTemplate',
  'deleteTemplate',
  'publishTemplate',
  'createWebhook',
  'updateWebhook',
  'deleteWebhook',
  'testWebhook',
  'rotateWebhookSecret',
  'replayWebhook',
  'replayWebhookDelivery',
  'replayWebhookDeliveries',
  'snoozeFinding',
  'endSnooze',
  'verifyDomain',
  'listApiKeys',
  'listRequests',
  'getRequest',
] as const;

/** Operations of admins that concern more than one project. */
const ORGANIZATION_ADMIN_OPERATIONS = [
  'createProject',
  'updateProject',
  'updateMember',
  'removeMember',
  'listInvitations',
  'createInvitation',
  'revokeInvitation',
  'listAuditEvents',
  'listOperatorConditions',
  'getReconciliation',
] as const;

const ADMIN_OPERATIONS = [
  'createDomain',
  'updateDomain',
  'deleteDomain',
  'rotateDomainDkim',
  'cancelDomainDkimRotation',
  'createApiKey',
  'updateApiKey',
  'rotateApiKey',
  'revokeApiKey',
  'createSuppression',
  'deleteSuppression',
  'importSuppressions',
  'exportSuppressions',
  'holdQueue',
  'releaseQueue',
  'retryQueue',
  'dropQueue',
  'undoQueueDrop',
  ...ORGANIZATION_ADMIN_OPERATIONS,
] as const;

/** Operations on the installation, for owners of the first organization (operators.ts). */
const OWNER_OPERATIONS = [
  'getStatus',
  'listVariables',
  'publishDomainRecords',
  'getSignInPolicy',
  'updateSignInPolicy',
  'getDoctor',
  'runDoctor',
  'listInstallationProjects',
  'getProjectSettings',
  'updateProjectSettings',
  'resumeProject',
  'listInbound',
  'getInbound',
  'listProviderBlocks',
  'probeProvider',
  'listTlsResults',
  'getReturnPathHost',
  'setReturnPathHost',
  'getRetention',
  'confirmRetention',
  'getHold',
  'endHold',
  'listReconciledDays',
  'checkReconciliation',
  'acknowledgeReconciliation',
] as const;

export type Operation = (
  | typeof VIEWER_OPERATIONS
  | typeof DEVELOPER_OPERATIONS
  | typeof ADMIN_OPERATIONS
  | typeof OWNER_OPERATIONS
)[number];

/**
 * Operations that concern more than one project. A member needs the role in the organization for them; for the others,
 * the role in the project of the request.
 */
export const ORGANIZATION_OPERATIONS: ReadonlySet<string> = new Set<Operation>([
  ...ORGANIZATION_ADMIN_OPERATIONS,
  ...OWNER_OPERATIONS,
]);

/** Operations that a key of the operator's project may use: none of them concerns mail. */
export const OPERATOR_KEY_OPERATIONS: ReadonlySet<string> = new Set([
  'listEvents',
  'listOperatorConditions',
  'getReconciliation',
  'getCurrentApiKey',
  'createWebhook',
  'listWebhooks',
  'getWebhook',
  'updateWebhook',
  'deleteWebhook',
  'rotateWebhookSecret',
  'testWebhook',
  'listWebhookDeliveries',
  'getWebhookDelivery',
  'getWebhookStatistics',
  'replayWebhookDelivery',
  'replayWebhookDeliveries',
  'replayWebhook',
  'getWebhookReplay',
]);

/** Operations on the member's own session and account. An operator on the machine has neither. */
export const OWN_SESSION_OPERATIONS: ReadonlySet<string> = new Set<Operation>([
  'listViews',
  'saveView',
  'deleteView',
  'getSession',
  'endSession',
  'endAllSessions',
  'listSessions',
  'endOwnSession',
  'changePassword',
  'getTotp',
  'beginTotp',
  'confirmTotp',
  'removeTotp',
  'listPasskeys',
  'startPasskey',
  'addPasskey',
  'removePasskey',
]);

/** Operations of a member who has yet to set up the second factor that the installation requires. */
export const ENROLMENT_OPERATIONS: ReadonlySet<string> = new Set<Operation>([
  'getSession',
  'endSession',
  'endAllSessions',
  'listSessions',
  'endOwnSession',
  'changePassword',
  'getTotp',
  'beginTotp',
  'confirmTotp',
  'listPasskeys',
  'startPasskey',
  'addPasskey',
]);

/** Operations that an operator on the machine may use in the operator's project, beside OPERATOR_KEY_OPERATIONS. */
export const LOCAL_OPERATOR_OPERATIONS: ReadonlySet<string> = new Set<Operation>([
  'createApiKey',
  'listApiKeys',
  'updateApiKey',
  'rotateApiKey',
  'revokeApiKey',
]);

export const KEY_ONLY_OPERATIONS: ReadonlySet<string> = new Set(['getCurrentApiKey']);

export const LEAST_ROLES: ReadonlyMap<string, Role> = new Map([
  ...roleEntries('viewer', VIEWER_OPERATIONS),
  ...roleEntries('developer', DEVELOPER_OPERATIONS),
  ...roleEntries('admin', ADMIN_OPERATIONS),
  ...roleEntries('owner', OWNER_OPERATIONS),
]);

export function leastRole(operation: Operation): Role {
  return LEAST_ROLES.get(operation)!;
}

function roleEntries(role: Role, operations: readonly string[]): [string, Role][] {
  return operations.map((operation) => [operation, role]);
}
