/** Dry runs of live mail: DNS decides about sender and recipients, and the service connects to no mail server. */
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { startJourney } from '../support/journey.ts';
import { waitFor } from '../support/wait.ts';

const journey = await startJourney();
after(() => journey[Symbol.asyncDispose]());

async function dryRun(draft: object) {
  const email = { from: 'Acme <hello@acme.example>', subject: 'Hi', text: 'Hi', ...draft };
  const response = await journey.request('POST', '/v1/emails?dry_run=true', email);
  assert.equal(response.status, 200, response.text);
  return response.body;
}

test('the mail servers of a recipient are named in their order, with provider and TLS, and not connected to', async () => {
  const second = await journey.mailServer('dry.test', {}, { preference: 20 });
  const first = await journey.mailServer('dry.test');
  const { recipients } = await dryRun({ to: 'kim@dry.test' });
  assert.deepEqual(recipients[0].route, {
    verdict: 'found',
    provider: first.name,
    mx: [first, second].map(({ name, address }, index) => ({
      host: name,
      preference: 10 * (index + 1),
      addresses: [address],
      tls: { mode: 'opportunistic', policy: 'none', problem: null },
    })),
    problem: null,
  });
  const enforced = await dryRun({ to: 'kim@dry.test', tls: 'enforced' });
  const { tls } = enforced.recipients[0].route.mx[0];
  assert.deepEqual(tls, { mode: 'enforced', policy: 'enforced', problem: null });
  assert.deepEqual([first.connections, second.connections], [0, 0]);
});

test('a domain that takes no mail, and one that does not exist, have no route and the reason', async () => {
  journey.dns.set('null.test', 'MX', ['0 .']);
  const { recipients } = await dryRun({ to: ['kim@null.test', 'kim@misspelt.test'] });
  const [none, missing] = recipients.map(({ route }: { route: object }) => route);
  assert.deepEqual([none.verdict, missing.verdict], ['none', 'none']);
  assert.match(none.problem, /null\.test accepts no mail \(null MX\)/);
  assert.match(missing.problem, /misspelt\.test does not exist/);
});

test('a sender whose records are published passes DKIM, SPF and DMARC', async () => {
  const before = await dryRun({ to: 'kim@null.test' });
  assert.equal(before.sender.dmarc.verdict, 'none');
  journey.dns.set('_dmarc.published.example', 'TXT', ['v=DMARC1; p=reject; aspf=s']);
  await journey.service.addLiveDomain('published.example');
  const from = 'hello@published.example';
  const { sender } = await dryRun({ from, to: 'kim@null.test' });
  assert.deepEqual(
    sender.dkim.map((one: { algorithm: string; verdict: string }) => [one.algorithm, one.verdict]),
    [
      ['rsa-sha256', 'pass'],
      ['ed25519-sha256', 'pass'],
    ],
  );
  assert.deepEqual([sender.spf.verdict, sender.spf.aligned], ['pass', false]);
  assert.deepEqual(sender.dmarc, {
    domain: 'published.example',
    policy: 'reject',
    verdict: 'pass',
    problem: null,
  });
});

test('a sender whose records are gone fails, and the response names the missing record', async () => {
  const key = await journey.key();
  const body = { name: 'gone.example' };
  const { body: domain } = await journey.service.request('POST', '/v1/domains', { key, body });
  await journey.service.sql(`update domains set status = 'verified' where id = $1`, [domain.id]);
  journey.dns.set('_dmarc.gone.example', 'TXT', ['v=DMARC1; p=quarantine']);
  const { sender } = await dryRun({ from: 'hello@gone.example', to: 'kim@null.test' });
  const [dkim] = sender.dkim;
  assert.deepEqual([dkim.verdict, sender.spf.verdict], ['fail', 'fail']);
  assert.match(dkim.problem, /gone\.example|does not exist/);
  assert.deepEqual([sender.dmarc.policy, sender.dmarc.verdict], ['quarantine', 'fail']);
});

test('name servers that do not answer make a finding unknown in seconds, and do not slow the request', async () => {
  journey.dns.setFailure('silent.test', 'timeout');
  const startedMs = performance.now();
  const { recipients } = await dryRun({ to: ['kim@silent.test', 'kim@null.test'] });
  assert.ok(performance.now() - startedMs < 30_000);
  const [silent, other] = recipients.map(({ route }: { route: object }) => route);
  assert.deepEqual([silent.verdict, other.verdict], ['unknown', 'none']);
  assert.match(silent.problem, /did not respond within 3 s/);
});

test('one request looks up at most ten domains of recipients', async () => {
  const to = Array.from({ length: 50 }, (_, n) => `kim@many${n}.test`);
  const { recipients } = await dryRun({ to });
  const notAsked = recipients.filter(({ route }: { route: { problem: string | null } }) =>
    /at most 10 domains/.test(route.problem ?? ''),
  );
  assert.equal(notAsked.length, 40);
  assert.equal(notAsked[0].route.verdict, 'unknown');
  const asked = journey.dns.queries.filter(
    ({ name, type }) => type === 'MX' && name.startsWith('many'),
  );
  assert.equal(new Set(asked.map(({ name }) => name)).size, 10);
});

test('a stranger with a key cannot use dry runs to flood name servers', async () => {
  const asked = () =>
    new Set(journey.dns.queries.map(({ name }) => name).filter((name) => name.startsWith('flood')))
      .size;
  const startedMs = performance.now();
  const isRefused = async (request: number) => {
    const to = Array.from({ length: 50 }, (_, n) => `kim@flood${request}x${n}.test`);
    const { recipients } = await dryRun({ to });
    return recipients.some(({ route }: { route: { problem: string | null } }) =>
      /120 domains within a minute/.test(route.problem ?? ''),
    );
  };
  let requests = 0;
  for (; requests < 40; requests += 1) await isRefused(requests);
  // The minute began with the first look-up of this file, and a slow machine may begin another one here.
  const minutes = 2 + Math.floor((performance.now() - startedMs) / 60_000);
  assert.ok(asked() <= 120 * minutes, `${asked()} domains were looked up in ${minutes} minutes`);
  await waitFor(() => isRefused((requests += 1)), { what: 'look-ups to be refused' });
});
