/** Rows that accepting and settling need, and the shortest ways to insert them. */
import pino from 'pino';
import { addressKey, domainOf } from '../../src/mail/address.ts';
import { EMAIL_DEFAULTS } from '../../src/mail/email.ts';
import { newId } from '../../src/database/ids.ts';
import type { AcceptStore } from '../../src/accept/store/accept-store.ts';
import type { EmailResult, EmailBatch, NewEmail } from '../../src/accept/store/new-email.ts';
import type { Database } from '../../src/database/database.ts';
import { insertDomain } from '../../src/domains/domain-store.ts';
import { createKey } from '../../src/accounts/keys/key-store.ts';
import { createOrganization, createProject } from '../../src/accounts/projects/project-store.ts';
import type { Settlement } from '../../src/settle/settlement.ts';
import { systemWorld } from '../../src/service/machine/system-world.ts';
import { address } from './deliveries.ts';

export type Sender = { projectId: string; environment: 'live'; keyId: string; domainId: string };

/** Options of every SettleStore in tests. */
export const SETTLING = {
  log: pino({ level: 'silent' }),
  world: systemWorld,
  onWebhooksQueued: () => {},
};

/** Returns a project with a key and the verified domain acme.com. */
export async function newSender(db: Database, limit = 1_000_000): Promise<Sender> {
  const organization = await createOrganization(db, 'Acme');
  const project = await createProject(db, organization.id, 'Shop');
  const scope = { projectId: project.id, environment: 'live' as const };
  const rights = { permission: 'full_access', domain: null, expiresAt: null } as const;
  const { key } = await createKey(db, scope, { name: 'test', ...rights });
  await db.query(
    `update limit_windows set max = $2 where project_id = $1 and category = 'sending'`,
    [project.id, limit],
  );
  const sealed = Buffer.from('sealed');
  const domainId = newId();
  await insertDomain(db, {
    ...scope,
    id: domainId,
    name: 'acme.com',
    status: 'verified',
    rsaSelector: 'one',
    rsaPublicKey: '',
    rsaPrivateKey: sealed,
    ed25519Selector: 'two',
    ed25519PublicKey: '',
    ed25519PrivateKey: sealed,
    ed25519Verified: false,
    records: [],
    advice: [],
  });
  return { ...scope, keyId: key.id, domainId };
}

export function newEmail(
  sender: Sender,
  {
    to = ['jo@example.net'],
    ...changes
  }: Partial<Omit<NewEmail, 'to'>> & { to?: readonly string[] } = {},
): NewEmail {
  const id = newId();
  return {
    projectId: sender.projectId,
    environment: sender.environment,
    keyId: sender.keyId,
    id,
    eventId: newId(),
    ...EMAIL_DEFAULTS,
    from: { name: 'Acme', address: address('hello@acme.com') },
    to: to.map((one) => ({ name: null, address: address(one) })),
    bcc: [],
    subject: 'Hello',
    html: '<p>Hello</p>',
    scheduledAt: null,
    lifetimeS: 3600,
    recipients: to.map((one, position) => ({
      position,
      address: address(one),
      addressKey: addressKey(one),
      kind: 'to',
      destination: one.slice(one.indexOf('@') + 1),
      provider: one.slice(one.indexOf('@') + 1),
      eventId: newId(),
    })),
    eventData: { email_id: id, status: 'queued' },
    response: JSON.stringify({ id, status: '@status', created_at: '@created_at' }),
    mayHandOver: true,
    idempotency: null,
    sizeBytes: 3_000,
    ...changes,
  };
}

/** Returns the emails of one request, strict unless `permissive`. The response has the outcomes. */
export function emailBatch(
  emails: readonly NewEmail[],
  changes: { idempotency?: EmailBatch['idempotency']; permissive?: boolean } = {},
): EmailBatch {
  const [first] = emails;
  if (!first) throw new Error('a batch has at least one email');
  const { projectId, environment, keyId } = first;
  const { idempotency = null, permissive = false } = changes;
  return {
    projectId,
    environment,
    keyId,
    idempotency,
    sizeBytes: emails.reduce((sum, { sizeBytes }) => sum + sizeBytes, 0),
    emails,
    isStrict: !permissive,
    respond: (outcomes) =>
      JSON.stringify(emails.map(({ id }, at) => ({ id, outcome: outcomes[at] }))),
  };
}

/** Accepts everything at once and groups the outcomes. */
export async function acceptAll(
  store: AcceptStore,
  emails: readonly NewEmail[],
): Promise<{ rows: EmailResult[]; count: (outcome: string) => number }> {
  const rows = await Promise.all(emails.map((email) => store.accept(email)));
  return {
    rows,
    count: (outcome) => rows.filter((row) => row.outcome === outcome).length,
  };
}

/** Returns an outcome for a recipient of an email that was accepted with its hand-over. */
export function settlement(email: NewEmail, changes: Partial<Settlement> = {}): Settlement {
  return {
    projectId: email.projectId,
    environment: email.environment,
    emailId: email.id,
    senderDomain: domainOf(email.from.address),
    position: 0,
    claim: 1,
    status: 'delivered',
    eventId: newId(),
    eventType: 'email.delivered',
    data: { email_id: email.id, status: 'delivered' },
    attempt: { number: 1 },
    smtp: { code: 250 },
    reason: null,
    retryMs: null,
    provider: 'example.net',
    suppress: null,
    late: false,
    ...changes,
  };
}
