import assert from 'node:assert/strict';
import { test } from 'node:test';
import { newMessage } from '../../test/support/deliveries.ts';
import type { Address } from '../mail/address.ts';
import { generateDkimKeys } from '../mail/dkim.ts';
import { newId } from '../store/ids.ts';
import { SecretBox } from '../store/secrets.ts';
import { assertAsSigned, MessageBuilder } from './message.ts';

const secrets = new SecretBox('s'.repeat(32));
const dkim = await generateDkimKeys();
const projectId = newId();

/** A builder that keeps the keys of `keysMax` domains, and the domains whose keys it loads. */
function newBuilder(keysMax: number) {
  const loaded: string[] = [];
  const query = async <Row extends object>(_: unknown, values: readonly unknown[] = []) => {
    const domainId = String(values[1]);
    loaded.push(domainId);
    const row = {
      domain: 'acme.com',
      rsaSelector: 'one',
      rsaPrivateKey: secrets.seal(dkim.rsa.privateKey, domainId),
      ed25519Selector: 'two',
      ed25519PrivateKey: secrets.seal(dkim.ed25519.privateKey, domainId),
    };
    return [row as unknown as Row];
  };
  const builder = new MessageBuilder({ query }, secrets, { keysMax });
  const sign = async (domainId: string) => {
    const recipient = { address: 'jo@example.net' as Address, position: 0 };
    return builder.build(newMessage({ projectId, domainId }), recipient);
  };
  return { loaded, sign };
}

test('one domain more than are remembered costs the keys of one domain, not of all', async () => {
  const { loaded, sign } = newBuilder(10);
  const domains = Array.from({ length: 11 }, () => newId());
  for (const domain of domains) await sign(domain);
  assert.equal(loaded.length, 11);
  // All but the one that was used longest ago are still there.
  for (const domain of domains.slice(1)) await sign(domain);
  assert.equal(loaded.length, 11);
});

test('the keys of a busy domain stay, however many others come by', async () => {
  const { loaded, sign } = newBuilder(10);
  const busy = newId();
  await sign(busy);
  for (let n = 0; n < 50; n += 1) {
    await sign(newId());
    await sign(busy);
  }
  assert.equal(loaded.filter((domain) => domain === busy).length, 1);
});

test('a message whose bytes changed after it was signed is not sent', async () => {
  const { sign } = newBuilder(10);
  const signed = await sign(newId());
  assertAsSigned(signed);
  const [header = Buffer.alloc(0), ...body] = signed.parts;
  const changed = Buffer.from(header);
  changed[header.indexOf('Subject: ') + 9] = 0x21;
  const broken = /changed after it was signed/;
  assert.throws(() => assertAsSigned({ ...signed, parts: [changed, ...body] }), broken);
  assert.throws(() => assertAsSigned({ ...signed, parts: [header] }), broken);
  // Of a large message the size is compared.
  const large = { ...signed, parts: [Buffer.alloc(1_000_000)], sizeBytes: 1_000_001 };
  assert.throws(() => assertAsSigned(large), broken);
  assertAsSigned({ ...large, sizeBytes: 1_000_000 });
});
