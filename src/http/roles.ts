/**
 * What members may do in a session of the dashboard: the least role for each operation of `/v1`. An
 * operation that is missing here needs an API key. A test holds this table to the OpenAPI document. The pages of
 * the dashboard offer what it allows (web/src/ui/allowed.tsx).
 *
 * A viewer reads, but nothing that could be used elsewhere: contents of shared links are public. A developer
 * sends, and changes what emails consist of and where events go. An admin changes what the organization is
 * known by: domains, keys, projects, suppressions, the mail that waits, members below the owner. An owner may do everything;
 * one of the first organization also runs the installation.
 */
import type { Role } from '../core/roles.ts';

const OF_VIEWERS = [
  'listEmails',
  'getEmail',
  'listEmailEvents',
  'getEmailContent',
  'previewEmail',
  'inspectEmail',
  'downloadEmailAttachment',
  'listEmailWebhookDeliveries',
  'diagnoseEmail',
  'listEvents',
  'getRecipientLog',
  'getStats',
  'getQueue',
  'getQueueProvider',
  'listDomains',
  'getDomain',
  'listWebhooks',
  'getWebhook',
  'listWebhookDeliveries',
  'getWebhookDelivery',
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
  'getLimits',
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
] as const;

const OF_DEVELOPERS = [
  'sendEmail',
  'sendEmailBatch',
  'rescheduleEmail',
  'cancelEmail',
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
  'verifyDomain',
  'listApiKeys',
  'listRequests',
  'getRequest',
] as const;

const OF_ADMINS = [
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

/** Of the first organization alone (operators.ts): what concerns the installation. */
const OF_OWNERS = [
  'getStatus',
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
  | typeof OF_VIEWERS
  | typeof OF_DEVELOPERS
  | typeof OF_ADMINS
  | typeof OF_OWNERS
)[number];

/** What a key of the operator's project may do: nothing about mail. */
export const OF_OPERATORS: ReadonlySet<string> = new Set([
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
  'replayWebhookDelivery',
  'replayWebhook',
  'getWebhookReplay',
]);

/** What a member does with the own session and account: not for an operator on the machine, who has neither. */
export const ABOUT_OWN_SESSION: ReadonlySet<string> = new Set<Operation>([
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
]);

/** What an operator on the machine may do in the operator's project beside OF_OPERATORS. */
export const OF_OPERATORS_ON_MACHINE: ReadonlySet<string> = new Set<Operation>([
  'createApiKey',
  'listApiKeys',
  'updateApiKey',
  'rotateApiKey',
  'revokeApiKey',
]);

export const ONLY_WITH_A_KEY: ReadonlySet<string> = new Set(['getCurrentApiKey']);

export const LEAST_ROLES: ReadonlyMap<string, Role> = new Map([
  ...entries('viewer', OF_VIEWERS),
  ...entries('developer', OF_DEVELOPERS),
  ...entries('admin', OF_ADMINS),
  ...entries('owner', OF_OWNERS),
]);

export function leastRole(operation: Operation): Role {
  return LEAST_ROLES.get(operation)!;
}

function entries(role: Role, operations: readonly string[]): [string, Role][] {
  return operations.map((operation) => [operation, role]);
}
