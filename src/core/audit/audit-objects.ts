/** The objects of entries of the audit log, by their actions. Every action has one object. */

export const AUDIT_OBJECTS = [
  'account',
  'api_key',
  'domain',
  'email',
  'installation',
  'invitation',
  'member',
  'project',
  'queue',
  'suppression',
  'template',
  'webhook',
] as const;
export type AuditObject = (typeof AUDIT_OBJECTS)[number];

/** The first pattern that the action matches names its object. */
const OBJECTS: readonly (readonly [RegExp, AuditObject])[] = [
  [/ApiKey/, 'api_key'],
  [/Suppression/, 'suppression'],
  [/Webhook/, 'webhook'],
  [/Template/, 'template'],
  [/Domain/, 'domain'],
  [/Email/, 'email'],
  [/Queue|Provider/, 'queue'],
  [/^(create|revoke)Invitation/, 'invitation'],
  [/Member|acceptInvitation|joinByOidc/, 'member'],
  [/Project|Snooze|snooze/, 'project'],
  [/^signIn(?!Policy)|Session|Owner|Password|Totp|Passkey|Oidc/, 'account'],
];

export function objectOfAction(action: string): AuditObject {
  return OBJECTS.find(([pattern]) => pattern.test(action))?.[1] ?? 'installation';
}
