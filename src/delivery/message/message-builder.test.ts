/**
 * The signed bytes of a message and the cache of signing keys. Signatures are verified in src/mail/dkim.test.ts and
 * test/journey/signatures.test.ts.
 */
import assert from 'node:assert/strict';
import { isAscii } from 'node:buffer';
import { test } from 'node:test';
import { newMessage } from '../../../test/support/deliveries.ts';
import type { Address } from '../../mail/address.ts';
import { generateDkimKeys } from '../../mail/dkim.ts';
import type { StoredMessage } from './message-store.ts';
import { newId } from '../../database/ids.ts';
import { SecretBox } from '../../secrets/secret-box.ts';
import {
  assertUnchanged,
  canBeAscii,
  MessageBuilder,
  type SignedMessage,
} from './message-builder.ts';
import { SigningKeys } from './signing-keys.ts';

const secrets = new SecretBox('s'.repeat(32));
const dkim = await generateDkimKeys();
const projectId = newId();

/** A builder that caches the keys of `keysMax` domains, and the domains whose keys it loads. */
function newBuilder(keysMax: number, published = { rsaPublished: true, ed25519Verified: false }) {
  const loaded: string[] = [];
  const clock = { nowMs: 0 };
  const query = async <Row extends object>(_: unknown, values: readonly unknown[] = []) => {
    const domainId = String(values[1]);
    loaded.push(domainId);
    const row = {
      domain: 'acme.com',
      rsaSelector: 'one',
      rsaPrivateKey: secrets.seal(dkim.rsa.privateKey, domainId),
      ed25519Selector: 'two',
      ed25519PrivateKey: secrets.seal(dkim.ed25519.privateKey, domainId),
      previousRsaSelector: null,
      previousRsaPrivateKey: null,
      previousEd25519Selector: null,
      previousEd25519PrivateKey: null,
      ...published,
    };
    return [row as unknown as Row];
  };
  const world = { monotonicMs: () => clock.nowMs };
  const builder = new MessageBuilder(
    new SigningKeys({ query }, secrets, { world, keysMax }),
    secrets,
  );
  const fixed = { id: newId(), domainId: newId() };
  const build = (changes: Partial<StoredMessage>) => {
    const recipient = { address: 'jo@example.net' as Address, position: 0 };
    return builder.build(newMessage({ projectId, ...fixed, ...changes }), recipient);
  };
  const sign = (domainId: string) => build({ id: newId(), domainId });
  return { loaded, build, sign, builder, clock, published };
}

test('one domain beyond the cache evicts the keys of only one domain', async () => {
  const { loaded, sign } = newBuilder(10);
  const domains = Array.from({ length: 11 }, () => newId());
  for (const domain of domains) await sign(domain);
  assert.equal(loaded.length, 11);
  // All except the least recently used are still cached.
  for (const domain of domains.slice(1)) await sign(domain);
  assert.equal(loaded.length, 11);
});

test('the keys of a busy domain stay in the cache', async () => {
  const { loaded, sign } = newBuilder(10);
  const busy = newId();
  await sign(busy);
  for (let n = 0; n < 50; n += 1) {
    await sign(newId());
    await sign(busy);
  }
  assert.equal(loaded.filter((domain) => domain === busy).length, 1);
});

test('a scheduled message is dated and signed with its scheduled time', async () => {
  const { build } = newBuilder(10);
  const [createdAt, later] = [new Date('2026-11-21T08:30:00Z'), new Date('2026-11-23T09:00:00Z')];
  const headOf = async (scheduledAt: Date | null) =>
    String((await build({ createdAt, scheduledAt })).parts[0]);
  const scheduled = await headOf(later);
  assert.match(scheduled, /^Date: Mon, 23 Nov 2026 09:00:00 \+0000\r$/m);
  assert.match(scheduled, new RegExp(`\\bt=${later.getTime() / 1000};`));
  assert.match(await headOf(null), /^Date: Sat, 21 Nov 2026 08:30:00 \+0000\r$/m);
  assert.equal(await headOf(later), scheduled, 'every retry has the same bytes');
});

test('a message is signed with the keys published when it is sent, and can be shown as sent', async () => {
  const published = { rsaPublished: true, ed25519Verified: true };
  const { builder, clock } = newBuilder(10, published);
  const message = newMessage({ projectId, id: newId(), domainId: newId(), dualSigned: true });
  const recipient = { address: 'jo@example.net' as Address, position: 0 };
  const selectorsOf = ({ parts }: SignedMessage) =>
    [...String(parts[0]).matchAll(/\bs=(\w+);/g)].map(([, selector]) => selector).join();
  const sent = await builder.build(message, recipient);
  assert.match(selectorsOf(sent), /^(one,two|two,one)$/);
  const later = async (changes: Partial<typeof published>) => {
    Object.assign(published, changes);
    clock.nowMs += 10_000;
    return builder.build(message, recipient);
  };
  const withRsa = await later({ ed25519Verified: false });
  assert.equal(selectorsOf(withRsa), 'one');
  assert.equal(selectorsOf(await later({ rsaPublished: false })), 'one', 'none is published');
  const withEd25519 = await later({ ed25519Verified: true });
  assert.equal(selectorsOf(withEd25519), 'two');
  for (const earlier of [sent, withRsa, withEd25519]) {
    const shown = await builder.buildSent(message, recipient, earlier.sha256);
    assert.deepEqual(Buffer.concat(shown.parts), Buffer.concat(earlier.parts));
  }
  const unsent = await builder.buildSent(message, recipient, null);
  assert.equal(unsent.sha256, withEd25519.sha256);
});

test('a message to ASCII and other recipients has an ASCII form, and can be shown in it', async () => {
  const { builder } = newBuilder(10);
  const kim = { name: null, address: 'kim@example.net' as Address };
  const jo = { name: 'J\u00f6', address: 'j\u00f6@example.net' as Address };
  const recipient = { address: kim.address, position: 0 };
  const messageTo = (changes: object) => newMessage({ projectId, id: newId(), ...changes });
  const message = messageTo({ to: [kim, jo] });
  const [full, ascii] = [
    await builder.build(message, recipient),
    await builder.build(message, recipient, { asciiOnly: true }),
  ];
  assert.deepEqual([full.smtpUtf8, ascii.smtpUtf8], [true, false]);
  assert.ok(ascii.parts.every((part) => isAscii(part)));
  for (const sent of [full, ascii]) {
    assert.equal((await builder.buildSent(message, recipient, sent.sha256)).sha256, sent.sha256);
  }
  const hasForm = (changes: object) => canBeAscii(messageTo(changes), recipient);
  assert.ok(canBeAscii(message, recipient) && hasForm({ to: [kim], cc: [jo] }));
  assert.equal(canBeAscii(message, { ...recipient, address: jo.address }), false);
  for (const changes of [{ to: [kim] }, { to: [jo], from: jo }, { to: [jo], replyTo: [jo] }]) {
    assert.equal(hasForm(changes), false);
  }
});

test('a message whose bytes changed after it was signed is not sent', async () => {
  const { sign } = newBuilder(10);
  const signed = await sign(newId());
  assertUnchanged(signed);
  const [header = Buffer.alloc(0), ...body] = signed.parts;
  const changed = Buffer.from(header);
  changed[header.indexOf('Subject: ') + 9] = 0x21;
  const broken = /changed after it was signed/;
  assert.throws(() => assertUnchanged({ ...signed, parts: [changed, ...body] }), broken);
  assert.throws(() => assertUnchanged({ ...signed, parts: [header] }), broken);
  // Only the size of a large message is compared.
  const large = { ...signed, parts: [Buffer.alloc(1_000_000)], sizeBytes: 1_000_001 };
  assert.throws(() => assertUnchanged(large), broken);
  assertUnchanged({ ...large, sizeBytes: 1_000_000 });
});
