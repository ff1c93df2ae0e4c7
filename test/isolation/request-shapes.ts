/** What an attacker does with requests: all shapes of a number of workers share a service. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { startReceiver } from '../support/webhook-receiver.ts';
import { keepDoing, startTenants, type Tenants } from './tenants.ts';

const ADDRESSES = 256;

export function testRequestShapes(workers: number): void {
  let tenants: Tenants;
  before(async () => {
    tenants = await startTenants(workers);
    const template = { name: 'Long', alias: 'long', subject: 'Hello', text: 'Hello' };
    const made = await asked('/v1/templates', template);
    assert.equal(made.status, 201, made.text);
  });
  after(() => tenants[Symbol.asyncDispose]());

  const attacked = (shape: string, act: () => Promise<unknown>, connections = 4): void => {
    test(`${workers}: ${shape} do not delay another tenant`, async () => {
      await using _attack = keepDoing(act, connections);
      await tenants.victim.isServed();
    });
  };
  const asked = (path: string, body?: unknown) =>
    tenants.service.request(body === undefined ? 'GET' : 'POST', path, {
      key: tenants.attacker.test,
      body,
    });
  const dryRun = (html: string) => {
    const { from } = tenants.attacker;
    const draft = { from, to: 'delivered@simulator.test', subject: 'Hello', html };
    return asked('/v1/emails?dry_run=true', draft);
  };

  attacked('dry runs of a tag with 190,000 spaces', () =>
    dryRun(`<img src=${' '.repeat(190_000)}x>`),
  );
  attacked('dry runs of 8 MB of character references', () => dryRun('&lt;'.repeat(2_000_000)), 2);
  attacked('previews that turn long lists into text', () => {
    const list = Array.from({ length: 9_000 }, () => 'aaa');
    const text = '{% for a in list %}{{ list }}{% endfor %}';
    return asked('/v1/templates/long/preview', { content: { text }, variables: { list } });
  });
  attacked('translations of unclosed blocks', () =>
    asked('/v1/templates/translate', {
      syntax: 'handlebars',
      html: `${'{{#if a}}'.repeat(20_000)}${'\\{{'.repeat(20_000)}`,
    }),
  );
  attacked(
    'searches of eight words',
    () => asked('/v1/emails?q=one%20two%20three%20four%20five%20six%20seven%20eight'),
    30,
  );
  attacked('polls of events', () => asked('/v1/events?limit=100'), 30);

  let address = 0;
  attacked(
    'sign-ins from many networks',
    () => {
      address = (address + 1) % ADDRESSES;
      return tenants.service.request('POST', '/v1/session', {
        key: null,
        body: { email: `nobody${address}@acme.test`, password: 'a wrong password' },
        headers: {
          'sec-fetch-site': 'same-origin',
          'letterhaus-session': '1',
          'x-forwarded-for': `203.0.${address}.7`,
        },
      });
    },
    30,
  );

  test(`${workers}: endpoints that answer slowly do not delay another tenant's webhooks`, async () => {
    await using slow = await startReceiver('hang');
    const { service, attacker } = tenants;
    for (let n = 0; n < 30; n += 1) {
      const body = { url: `${slow.url}/${n}` };
      const answer = await service.request('POST', '/v1/webhooks', { key: attacker.test, body });
      assert.ok([201, 422, 409].includes(answer.status), answer.text);
    }
    const { from } = attacker;
    for (let n = 0; n < 10; n += 1) await service.send({ from }, { key: attacker.test });
    await slow.waitForCount(20);
    await tenants.victim.isServed();
  });
}
