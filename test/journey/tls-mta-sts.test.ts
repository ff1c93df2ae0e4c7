/**
 * MTA-STS (RFC 8461): the published policy of a domain holds, also while it cannot be looked up.
 */
import { after, before, describe, test } from 'node:test';
import assert from 'node:assert/strict';
import type { MxBehaviour } from '../support/fake-mx.ts';
import { CA_FILE, type MailServer, startJourney } from '../support/journey.ts';
import { policyText, startPolicyServer, type PolicyResponse } from '../support/policy-server.ts';

const policies = await startPolicyServer();
const journey = await startJourney({
  NODE_EXTRA_CA_CERTS: CA_FILE,
  LETTERHAUS_MTA_STS_PORT: String(policies.port),
});
after(async () => {
  await journey[Symbol.asyncDispose]();
  await policies[Symbol.asyncDispose]();
});

const TRUSTED: MxBehaviour = { startTls: 'offered' };
const UNPROVEN: MxBehaviour = { startTls: 'offered', certificate: 'self-signed' };
let domains = 0;

/** Returns a new domain with an announced policy. By default the policy names the hosts of `*.mx.test`. */
function announce(
  answer: PolicyResponse = { body: policyText('enforce', ['*.mx.test']) },
  { txt = 'v=STSv1; id=1;' } = {},
): string {
  const domain = `sts${++domains}.test`;
  journey.dns.set(`mta-sts.${domain}`, 'A', ['127.0.0.1']);
  journey.dns.set(`_mta-sts.${domain}`, 'TXT', [txt]);
  policies.set(domain, answer);
  return domain;
}

const saidMail = (mx: MailServer): boolean =>
  mx.sessions.some(({ lines }) => lines.some((line) => line.startsWith('C: MAIL')));

/** Sends one email and says how it went with TLS. */
async function sendTo(domain: string) {
  const id = await journey.send({ to: `kim@${domain}` });
  const { recipients } = await journey.ended(id);
  assert.equal(recipients[0].status, 'delivered');
  return recipients[0].smtp;
}

/** Sends one email that must be deferred because of TLS. */
async function sendDeferred(domain: string, draft: object = {}): Promise<string> {
  const id = await journey.send({ to: `kim@${domain}`, ...draft });
  const { status, recipients } = await journey.attempted(id);
  assert.deepEqual([status, recipients[0].reason.category], ['deferred', 'tls']);
  assert.equal(recipients[0].smtp.tls_policy, 'mta-sts');
  return id;
}

/** The counts that the service must have, by domain. It stores them when it stops. */
const expected = new Map<string, string[]>();

const requestsOf = (domain: string): string[] =>
  policies.requests.filter((request) => request.startsWith(`${domain}/`));

test('a server that the policy lists and that has a valid certificate gets the email', async () => {
  const domain = announce();
  const mx = await journey.mailServer(domain, TRUSTED);
  const smtp = await sendTo(domain);
  assert.deepEqual([smtp.tls.verified, smtp.tls_policy], [true, 'mta-sts']);
  assert.equal(mx.messages[0]?.tls, 'TLSv1.3');
  assert.deepEqual(requestsOf(domain), [`${domain}/.well-known/mta-sts.txt`]);
});

const FAILING: Record<string, MxBehaviour> = {
  'has a certificate of nobody known': UNPROVEN,
  'has the certificate of another': { startTls: 'offered', certificate: 'other-name' },
  'has an expired certificate': { startTls: 'offered', certificate: 'expired' },
  'offers no STARTTLS': {},
  'refuses STARTTLS': { startTls: 'refused' },
  'breaks STARTTLS': { startTls: 'broken' },
  'knows no TLS that is younger than 1.0': { startTls: 'outdated' },
};

for (const [what, behaviour] of Object.entries(FAILING)) {
  test(`nothing is sent to a server that ${what} until it is corrected`, async () => {
    const domain = announce();
    const mx = await journey.mailServer(domain, behaviour);
    const id = await sendDeferred(domain);
    assert.ok(!saidMail(mx));
    mx.set(TRUSTED);
    assert.equal((await journey.retry(id)).status, 'delivered');
  });
}

test('a newer policy is fetched before mail is deferred, and applies to the same attempt', async () => {
  const domain = announce();
  const mx = await journey.mailServer(domain, TRUSTED);
  await sendTo(domain);
  policies.set(domain, { body: policyText('none', []) });
  journey.dns.set(`_mta-sts.${domain}`, 'TXT', ['v=STSv1; id=2;']);
  mx.set(UNPROVEN);
  mx.sessions.at(-1)?.socket.destroy();
  const id = await journey.send({ to: `kim@${domain}` });
  const [{ status, attempts, smtp }] = (await journey.ended(id)).recipients;
  assert.deepEqual([status, attempts, smtp.tls_policy], ['delivered', 1, 'none']);
  assert.equal(smtp.tls.verified, false);
});

test('a policy in testing mode stops no mail, and its failures are counted', async () => {
  const domain = announce({ body: policyText('testing', ['elsewhere.test']) });
  await journey.mailServer(domain, UNPROVEN);
  const smtp = await sendTo(domain);
  assert.deepEqual([smtp.tls.verified, smtp.tls_policy], [false, 'mta-sts-testing']);
  expected.set(domain, ['sts validation-failure 1']);
});

test('TLS results of a domain are counted by policy and result', async () => {
  const domain = announce();
  const mx = await journey.mailServer(domain, UNPROVEN);
  const waiting = [await sendDeferred(domain, { expires_in: 60 })];
  mx.set({});
  waiting.push(await sendDeferred(domain, { expires_in: 60 }));
  mx.set(TRUSTED);
  await sendTo(domain);
  expected.set(domain, [
    'sts certificate-not-trusted 1',
    'sts starttls-not-supported 1',
    'sts success 1',
  ]);
  // They end without another session.
  await journey.pass({ seconds: 61 });
  for (const id of waiting) await journey.ended(id);

  const unreachable = announce({ status: 500 });
  await journey.mailServer(unreachable, {});
  await sendTo(unreachable);
  expected.set(unreachable, [
    'no-policy-found starttls-not-supported 1',
    'sts sts-policy-fetch-error 1',
  ]);
});

const USELESS: Record<string, PolicyResponse> = {
  'is not there': { status: 404 },
  'leads elsewhere': {
    status: 301,
    headers: { location: 'https://mta-sts.sts1.test/.well-known/mta-sts.txt' },
  },
  'comes from a host with a wrong certificate': {
    certificate: 'other-name',
    body: policyText('enforce', ['elsewhere.test']),
  },
  'is a web page': {
    headers: { 'content-type': 'text/html' },
    body: policyText('enforce', ['elsewhere.test']),
  },
  'is ten megabytes long': {
    body: policyText('enforce', ['elsewhere.test']) + 'x: y\r\n'.repeat(1_700_000),
  },
  'makes no sense': { body: 'version: STSv1\r\nmode: enforce\r\nmax_age: 86400\r\n' },
};

for (const [what, answer] of Object.entries(USELESS)) {
  test(`a policy that ${what} does not apply and is not fetched again at once`, async () => {
    const domain = announce(answer);
    await journey.mailServer(domain, UNPROVEN);
    const asked = policies.requests.length;
    const smtp = await sendTo(domain);
    await sendTo(domain);
    await sendTo(domain);
    assert.deepEqual([smtp.tls.verified, smtp.tls_policy], [false, 'none']);
    assert.ok(policies.requests.length - asked <= 1, 'a failed fetch is not repeated');
  });
}

test('two records, an invalid record or a DNS failure mean that there is no policy', async () => {
  const two = announce();
  journey.dns.set(`_mta-sts.${two}`, 'TXT', ['v=STSv1; id=1', 'v=STSv1; id=2']);
  const wrong = announce(undefined, { txt: 'v=STSv2; id=1;' });
  const silent = announce();
  journey.dns.setFailure(`_mta-sts.${silent}`, 'servfail');
  for (const domain of [two, wrong, silent]) {
    await journey.mailServer(domain, UNPROVEN);
    const smtp = await sendTo(domain);
    assert.deepEqual([smtp.tls_policy, requestsOf(domain).length], ['none', 0], domain);
  }
});

test('a policy is fetched once for all emails that wait for it', async () => {
  const domain = announce();
  const mx = await journey.mailServer(domain, TRUSTED);
  const to = Array.from({ length: 10 }, (_, index) => `kim${index}@${domain}`);
  await journey.ended(await journey.send({ to }));
  assert.equal(mx.messages.length, 10);
  assert.equal(requestsOf(domain).length, 1);
});

const GONE: Record<string, (domain: string) => void> = {
  'DNS does not answer': (domain) => journey.dns.setFailure(`_mta-sts.${domain}`, 'servfail'),
  'the record is gone': (domain) => journey.dns.remove(`_mta-sts.${domain}`),
  'a new one is announced and cannot be had': (domain) => {
    journey.dns.set(`_mta-sts.${domain}`, 'TXT', ['v=STSv1; id=2;']);
  },
};

// Tests before the restart begin these, tests after it end them: one restart for all.
/** Domains with a cached policy and an email that waits, by the part of the policy that is gone. */
const cached = new Map<string, { domain: string; mx: MailServer; waiting: string }>();
/** The domain of the policy that has expired. */
let expiring = '';
/** An email that waits for a server that the policy lists. */
let listing = { id: '', stranger: {} as MailServer, named: {} as MailServer };

test('a policy applies until it expires', async () => {
  const domain = announce({ body: policyText('enforce', ['*.mx.test'], 3600) });
  const mx = await journey.mailServer(domain, TRUSTED);
  assert.equal((await sendTo(domain)).tls_policy, 'mta-sts');
  journey.dns.remove(`_mta-sts.${domain}`);
  mx.set(UNPROVEN);
  expiring = domain;
  await journey.pass({ hours: 2 });
});

for (const [what, vanish] of Object.entries(GONE)) {
  test(`a cached policy holds when ${what}`, async () => {
    const domain = announce();
    const mx = await journey.mailServer(domain, TRUSTED);
    await sendTo(domain);
    vanish(domain);
    policies.set(domain, { status: 404 });
    mx.set(UNPROVEN);
    mx.sessions.at(-1)?.socket.destroy();
    cached.set(what, { domain, mx, waiting: await sendDeferred(domain, { expires_in: 60 }) });
  });
}

test('a server that the policy does not list is not contacted', async () => {
  const domain = announce({ body: policyText('enforce', ['host0.mx.test']) });
  const stranger = await journey.mailServer(domain, TRUSTED, { preference: 5 });
  const named = await journey.mailServer(domain, TRUSTED, { preference: 10 });
  const id = await sendDeferred(domain);
  assert.match((await journey.email(id)).recipients[0].smtp.message, /does not name/);
  assert.deepEqual([stranger.connections, named.connections], [0, 0]);
  policies.set(domain, { body: policyText('enforce', [named.name]) });
  journey.dns.set(`_mta-sts.${domain}`, 'TXT', ['v=STSv1; id=2;']);
  listing = { id, stranger, named };
});

// A worker would use what it remembers for longer than these tests take.
describe('after a restart', () => {
  before(() => journey.service.restart());

  test('only servers that the policy lists are contacted', async () => {
    const { id, stranger, named } = listing;
    const { status, recipients } = await journey.retry(id);
    assert.deepEqual([status, recipients[0].smtp.mx], ['delivered', named.name]);
    assert.equal(stranger.connections, 0);
  });

  for (const what of Object.keys(GONE)) {
    test(`a cached policy holds when ${what}, also after a restart`, async () => {
      const { domain, mx, waiting } = cached.get(what)!;
      const later = await sendDeferred(domain, { expires_in: 60 });
      assert.equal(mx.messages.length, 1);

      await journey.pass({ seconds: 61 });
      for (const id of [waiting, later]) {
        const { recipients } = await journey.ended(id);
        assert.deepEqual([recipients[0].status, recipients[0].reason.category], ['failed', 'tls']);
      }
    });
  }

  test('an expired policy does not apply', async () => {
    const smtp = await sendTo(expiring);
    assert.deepEqual([smtp.tls.verified, smtp.tls_policy], [false, 'none']);
  });

  test('the counts of TLS results can be read by domain', async () => {
    assert.equal(expected.size, 3);
    for (const [domain, counts] of expected) {
      const { data } = await journey.service.cliJson('tls-report', '--domain', domain);
      const rows = data as { policy: string; result: string; sessions: number }[];
      const stored = rows.map(({ policy, result, sessions }) => `${policy} ${result} ${sessions}`);
      assert.deepEqual(stored.toSorted(), counts, domain);
    }
  });
});
