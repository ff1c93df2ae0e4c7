/** Recipients in the form of delivery/, for tests without a database. */
import { type Address, parseAddress } from '../../src/mail/address.ts';
import type { Delivery } from '../../src/delivery/memory/delivery.ts';
import { EMAIL_DEFAULTS } from '../../src/mail/email.ts';
import { newId } from '../../src/database/ids.ts';
import type { StoredMessage } from '../../src/delivery/message/message-store.ts';

export function address(text: string): Address {
  const parsed = parseAddress(text);
  if (!parsed) throw new Error(`${text} is not an address`);
  return parsed;
}

export function newMessage(changes: Partial<StoredMessage> = {}): StoredMessage {
  return {
    projectId: newId(),
    environment: 'live',
    id: newId(),
    createdAt: new Date('2026-11-21T08:30:00.123Z'),
    scheduledAt: null,
    expiresAt: new Date('2026-11-24T08:30:00.123Z'),
    domainId: newId(),
    dualSigned: false,
    ...EMAIL_DEFAULTS,
    from: { name: 'Acme', address: address('hello@acme.com') },
    to: [{ name: null, address: address('jo@example.net') }],
    subject: 'Hello',
    html: '<p>Hello</p>',
    ...changes,
  };
}

export function newDelivery(to = 'jo@example.net', changes: Partial<Delivery> = {}): Delivery {
  const message = newMessage();
  return {
    message,
    content: message,
    contentBytes: 1_000,
    position: 0,
    claim: 1,
    attempts: 0,
    destination: to.slice(to.indexOf('@') + 1),
    provider: to.slice(to.indexOf('@') + 1),
    dueAtMs: 0,
    weightBytes: 24 * 1024,
    address: address(to),
    leaseId: newId(),
    leasedSinceMs: 0,
    expiresAtMs: 1_000_000,
    isSuppressed: false,
    isDomainDeleted: false,
    isDomainUnverified: false,
    ...changes,
  };
}
