/** The entries of the audit log in words. The action of an entry is the operation of the API. */
import type { AuditEvent } from '../../../../sdk/src/api.ts';
import { LEAST_ROLES } from '../../../../src/http/roles.ts';
import {
  AUDIT_OBJECTS,
  type AuditObject,
  objectOfAction,
} from '../../../../src/core/audit/audit-objects.ts';

export const OBJECT_WORDS: Readonly<Record<AuditObject, string>> = {
  account: 'Sign-in and accounts',
  api_key: 'API keys',
  domain: 'Domains',
  email: 'Emails',
  installation: 'Installation',
  invitation: 'Invitations',
  member: 'Members',
  project: 'Projects',
  queue: 'Queue',
  suppression: 'Suppressions',
  template: 'Templates',
  webhook: 'Webhooks',
};

/** Actions whose name says less than a person would. */
const WORDS: Readonly<Record<string, string>> = {
  signIn: 'Signed in',
  signInWithOidc: 'Signed in with the identity provider',
  signInWithPasskey: 'Signed in with a passkey',
  endSession: 'Signed out',
  endAllSessions: 'Signed out everywhere',
  endOwnSession: 'Ended a session',
  createOwner: 'Created the owner',
  acceptInvitation: 'Accepted an invitation',
  joinByOidc: 'Joined by the identity provider',
  linkOidc: 'Linked an account of the identity provider',
  updateProjectSettings: 'Changed limits and settings',
  updateSignInPolicy: 'Changed the sign-in policy',
  setReturnPathHost: 'Set the host for bounces',
  endHold: 'Released the installation',
  confirmRetention: 'Confirmed the removal of old mail',
  runDoctor: 'Ran the doctor',
  publishDomainRecords: 'Published DNS records',
  rotateDomainDkim: 'Rotated DKIM keys',
  cancelDomainDkimRotation: 'Canceled a DKIM rotation',
  updateApiKey: 'Changed an API key',
  createApiKey: 'Created an API key',
  verifyDomain: 'Checked a domain',
  beginTotp: 'Began to set up a second factor',
  confirmTotp: 'Switched a second factor on',
  removeTotp: 'Switched a second factor off',
  startPasskey: 'Began to add a passkey',
  replayWebhook: 'Replayed events to a webhook',
  undoQueueDrop: 'Took back a drop of queued mail',
  probeProvider: 'Tried a provider again',
  holdQueue: 'Put queued mail on hold',
  sendEmailBatch: 'Sent a batch of emails',
};

const PAST: Readonly<Record<string, string>> = {
  send: 'Sent',
  begin: 'Began',
  update: 'Changed',
  make: 'Made',
  undo: 'Took back',
  set: 'Set',
  drop: 'Dropped',
  retry: 'Retried',
};

/** "Deleted a domain". An action that is not known here is still a sentence of its own words. */
export function actionWords(action: string): string {
  const known = WORDS[action];
  if (known !== undefined) return known;
  const [verb = '', ...nouns] = action.split(/(?=[A-Z])/);
  const past = PAST[verb] ?? pastOf(verb);
  const noun = nouns.map((word) => (word === 'Api' ? 'API' : word.toLowerCase())).join(' ');
  if (noun === '') return past;
  const article =
    noun.endsWith('s') || noun === 'queue' ? '' : /^[aeio]/i.test(noun) ? 'an ' : 'a ';
  return `${past} ${noun === 'queue' ? 'queued mail' : `${article}${noun}`}`;
}

function pastOf(verb: string): string {
  const past = verb.endsWith('e')
    ? `${verb}d`
    : /[^aeiou]y$/.test(verb)
      ? `${verb.slice(0, -1)}ied`
      : `${verb}ed`;
  return past.charAt(0).toUpperCase() + past.slice(1);
}

/** "Jo Meier", and the address below it. */
export function actorWords({ actor }: AuditEvent): { name: string; detail: string | null } {
  if (actor.type === 'command') return { name: 'The command line', detail: null };
  if (actor.type === 'api_key') return { name: actor.name ?? 'An API key', detail: 'API key' };
  const name = actor.member_name ?? actor.name ?? 'A removed member';
  return { name, detail: actor.name === name ? null : actor.name };
}

const READS = /^(get|list|read|inspect|diagnose|preview|download|export|translate)/;

/** Actions of an object that members can be seen to take, for a choice. */
export function actionsOf(object: AuditObject): string[] {
  return [...LEAST_ROLES.keys()].filter(
    (action) => !READS.test(action) && objectOfAction(action) === object,
  );
}

export function asObject(text: string | undefined): AuditObject | undefined {
  return AUDIT_OBJECTS.find((object) => object === text);
}
