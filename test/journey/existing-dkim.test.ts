/** Mail of a domain that brought its DKIM key is signed with that key, as an independent verifier finds. */
import assert from 'node:assert/strict';
import { generateKeyPairSync } from 'node:crypto';
import { Resolver } from 'node:dns/promises';
import { after, test } from 'node:test';
import { authenticate } from 'mailauth';
import { startJourney } from '../support/journey.ts';

const journey = await startJourney();
after(() => journey[Symbol.asyncDispose]());

const NAME = 'moved.example';

test('mail is signed with the keys of 1024, 2048 and 4096 bits that domains brought', async () => {
  const mx = await journey.mailServer('receiving.test');
  const resolver = new Resolver();
  resolver.setServers([journey.dns.server]);
  for (const bits of [1024, 2048, 4096]) {
    const { privateKey, publicKey } = generateKeyPairSync('rsa', { modulusLength: bits });
    const name = `k${bits}.${NAME}`;
    const dkim = {
      selector: `s1.${bits}`,
      private_key: privateKey.export({ type: 'pkcs1', format: 'pem' }),
    };
    const { body: domain } = await journey.request('POST', '/v1/domains', { name, dkim });
    const p = publicKey.export({ type: 'spki', format: 'der' }).toString('base64');
    journey.dns.set(`s1.${bits}._domainkey.${name}`, 'TXT', [`v=DKIM1; p=${p}`]);
    for (const { record, type, name: at, value, priority } of domain.records.slice(1)) {
      const isMx = record === 'MX';
      journey.dns.set(at, type, [isMx ? `${priority} ${value}` : value]);
    }
    const { body: checked } = await journey.request('POST', `/v1/domains/${domain.id}/verify`);
    assert.equal(checked.status, 'verified');
    await journey.ended(await journey.send({ from: `us@${name}`, to: 'kim@receiving.test' }));
    const { dkim: judged } = await authenticate(mx.messages.at(-1)!.raw, {
      ip: '127.0.0.1',
      helo: 'out.test',
      sender: `x@send.${name}`,
      // Less than 1024 bits would not pass.
      minBitLength: 1024,
      resolver: async (at, type) => (await resolver.resolve(at, type)) as string[],
    });
    const found = judged.results.map(({ status, selector, signingDomain, modulusLength }) => [
      status.result,
      selector,
      signingDomain,
      modulusLength,
    ]);
    assert.deepEqual(found[0], ['pass', `s1.${bits}`, name, bits]);
    assert.ok(found.every(([result]) => result === 'pass'));
  }
});
