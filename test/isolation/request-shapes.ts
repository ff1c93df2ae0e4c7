/** Attacks by requests. All shapes with the same number of workers share a service. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import {
  characterReferences,
  dryRun,
  eventPoll,
  type HostileRequest,
  listPreview,
  longTag,
  PREVIEWED_TEMPLATE,
  searchOfManyWords,
  signInGuess,
  translationOfUnclosed,
} from '../support/hostile-shapes.ts';
import { startReceiver } from '../support/webhook-receiver.ts';
import { keepDoing, startTenants, type Tenants } from './tenants.ts';

export function testRequestShapes(workers: number): void {
  let tenants: Tenants;
  before(async () => {
    tenants = await startTenants(workers);
    const made = await asked({ path: '/v1/templates', body: PREVIEWED_TEMPLATE });
    assert.equal(made.status, 201, made.text);
  });
  after(() => tenants[Symbol.asyncDispose]());

  const attacked = (
    shape: string,
    act: () => Promise<unknown>,
    { connections = 4, ...served }: { connections?: number; everyMs?: number } = {},
  ): void => {
    test(`${workers}: ${shape} do not delay another tenant`, async () => {
      await using _attack = keepDoing(act, connections);
      await tenants.victim.isServed(served);
    });
  };
  const asked = (
    { path, body, headers = {} }: HostileRequest,
    key: string | null = tenants.attacker.test,
  ) => tenants.service.request(body === undefined ? 'GET' : 'POST', path, { key, body, headers });
  const dryRunOf = (html: string) => asked(dryRun(tenants.attacker.from, html));

  attacked('dry runs of a tag with 190,000 spaces', () => dryRunOf(longTag()));
  attacked(
    'dry runs of 8 MB of character references',
    () => dryRunOf(characterReferences(2_000_000)),
    { connections: 2 },
  );
  attacked('previews that turn long lists into text', () => asked(listPreview()));
  attacked('translations of unclosed blocks', () => asked(translationOfUnclosed()));
  attacked('searches of eight words', () => asked(searchOfManyWords()), { connections: 30 });
  attacked('polls of events', () => asked(eventPoll()), { connections: 30 });

  let guesses = 0;
  attacked('sign-ins from many networks', () => asked(signInGuess((guesses += 1)), null), {
    connections: 30,
    everyMs: 500,
  });

  test(`${workers}: endpoints that answer slowly do not delay another tenant's webhooks`, async () => {
    await using slow = await startReceiver('hang');
    const { service, attacker } = tenants;
    for (let n = 0; n < 30; n += 1) {
      const body = { url: `${slow.url}/${n}` };
      const response = await service.request('POST', '/v1/webhooks', { key: attacker.test, body });
      assert.ok([201, 422, 409].includes(response.status), response.text);
    }
    const { from } = attacker;
    for (let n = 0; n < 10; n += 1) await service.send({ from }, { key: attacker.test });
    await slow.waitForCount(20);
    await tenants.victim.isServed();
  });
}
