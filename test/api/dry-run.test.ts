/** Dry runs: the API predicts the outcome of an email and changes nothing. */
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { assertFailure, EMAIL, TIME, UUID_V7 } from '../support/api.ts';
import { startService } from '../support/service.ts';

const service = await startService({ env: { LETTERHAUS_LIMIT_SENDING: '1000/60' } });
after(() => service[Symbol.asyncDispose]());

const PATH = '/v1/emails?dry_run=true';
const dryRun = (change: object = {}, headers: Record<string, string> = {}) =>
  service.request('POST', PATH, { body: { ...EMAIL, ...change }, headers });

async function described(change: object = {}, headers: Record<string, string> = {}) {
  const response = await dryRun(change, headers);
  assert.equal(response.status, 200, response.text);
  return response.body;
}

const COUNTED = `
  select (select count(*) from emails) + (select count(*) from recipients)
       + (select count(*) from events) + (select count(*) from queue)
       + (select count(*) from contents) + (select count(*) from idempotency)
       + (select coalesce(sum(used + recipients_used), 0) from limit_windows
           where category = 'sending') as rows`;

test('a dry run has the fields of the contract', async () => {
  const { limit, message, sender, recipients, ...rest } = await described();
  assert.deepEqual(rest, {
    object: 'dry_run',
    outcome: 'send',
    replay_of: null,
    scheduled_at: null,
    tracking: { opens: false, clicks: false },
    lint: [],
  });
  const { reset, ...limits } = limit;
  assert.deepEqual(limits, { counts: 'emails', limit: 1000, remaining: 1000, window: 60 });
  assert.ok(reset > 0 && reset <= 60);
  assert.ok(Number.isInteger(message.size));
  const names = message.headers.map(({ name }: { name: string }) => name);
  for (const name of ['DKIM-Signature', 'From', 'To', 'Subject', 'Date', 'Message-ID']) {
    assert.ok(names.includes(name), name);
  }
  const { dkim, spf, dmarc, ...domain } = sender;
  assert.deepEqual(domain, { domain: 'acme.test' });
  for (const { selector, ...signature } of dkim) {
    assert.match(selector, /^lh[12]-[0-9a-f]{8}$/);
    assert.ok(['rsa-sha256', 'ed25519-sha256'].includes(signature.algorithm));
    assert.deepEqual(
      { ...signature, algorithm: '' },
      { domain: 'acme.test', algorithm: '', verdict: 'pass', aligned: true, problem: null },
    );
  }
  assert.equal(dkim.length, names.filter((name: string) => name === 'DKIM-Signature').length);
  assert.deepEqual(spf, {
    domain: 'send.acme.test',
    verdict: 'pass',
    aligned: true,
    problem: null,
  });
  assert.deepEqual(dmarc, { domain: null, policy: null, verdict: 'pass', problem: null });
  assert.deepEqual(recipients, [
    {
      address: 'delivered@simulator.test',
      kind: 'to',
      outcome: 'attempt',
      suppression: null,
      route: {
        verdict: 'found',
        provider: 'simulator',
        mx: [
          {
            host: 'simulator.letterhaus.invalid',
            preference: 0,
            addresses: [],
            tls: { mode: 'none', policy: 'none', problem: null },
          },
        ],
        problem: null,
      },
    },
  ]);
});

test('a dry run stores, counts and sends nothing', async () => {
  const before = await service.sql(COUNTED);
  await described();
  await described({ scheduled_at: new Date(Date.now() + 3600_000).toISOString() });
  await described({}, { 'idempotency-key': 'dry' });
  assert.equal((await dryRun({ from: 'us@other.test' })).status, 403);
  assert.deepEqual(await service.sql(COUNTED), before);
});

test('the size and the header fields match the email that is sent', async () => {
  const change = {
    subject: 'Grüße',
    unsubscribe: 'https://acme.test/u',
    html: '<p>ä</p>'.repeat(50),
  };
  const { message } = await described(change);
  const id = await service.send({ ...EMAIL, ...change });
  const { text } = await service.request('GET', `/v1/emails/${id}/content`);
  assert.equal(message.size, Buffer.byteLength(text));
  const header = text.slice(0, text.indexOf('\r\n\r\n')).replaceAll(/\r\n(?=[ \t])/g, '');
  const named = header.split('\r\n').map((line) => line.slice(0, line.indexOf(':')));
  assert.deepEqual(
    message.headers.map(({ name }: { name: string }) => name),
    named,
  );
  assert.ok(header.includes(`\r\nSubject: ${valueOf(message, 'Subject')}`));
});

function valueOf(message: { headers: { name: string; value: string }[] }, name: string) {
  return message.headers.find((field) => field.name === name)?.value;
}

test('a scheduled email has its time, and a date in the past none', async () => {
  const scheduled_at = new Date(Date.now() + 3600_000).toISOString();
  const later = await described({ scheduled_at });
  assert.deepEqual([later.outcome, later.scheduled_at], ['schedule', scheduled_at]);
  assert.match(later.scheduled_at, TIME);
  const date = Date.parse(valueOf(later.message, 'Date') ?? '');
  assert.equal(date, Math.floor(Date.parse(scheduled_at) / 1000) * 1000);
  const now = await described({ scheduled_at: '2020-01-01T00:00:00Z' });
  assert.deepEqual([now.outcome, now.scheduled_at], ['send', null]);
});

test('an email of a paused domain would be put on hold', async () => {
  const set = (value: string) =>
    service.sql(`update domains set paused_at = ${value} where name = 'acme.test'`);
  await set('app_now()');
  assert.equal((await described()).outcome, 'hold');
  await set('null');
  assert.equal((await described()).outcome, 'send');
});

test('a dry run refuses an email in the words of a real request', async () => {
  const drafts = [
    { to: 'bob@' },
    { subject: '' },
    { from: 'us@other.test' },
    { scheduled_at: new Date(Date.now() + 31 * 86_400_000).toISOString() },
    { template: { id: 'x' } },
    { no_such_field: 1 },
  ];
  for (const change of drafts) {
    const body = { ...EMAIL, ...change };
    const [dry, real] = [
      await dryRun(change),
      await service.request('POST', '/v1/emails', { body }),
    ];
    assert.ok(real.status >= 400, real.text);
    const { code, message } = real.body.error;
    assertFailure(dry, real.status, code);
    assert.equal(dry.body.error.message, message);
  }
  assertFailure(
    await service.request('POST', PATH, { key: null, body: EMAIL }),
    401,
    'authentication_error',
  );
  const bad = await dryRun({}, { 'idempotency-key': 'x'.repeat(257) });
  assertFailure(bad, 400, 'validation_error');
});

test('a limit that is used up refuses a dry run as well', async () => {
  const set = (max: number) =>
    service.sql(`update limit_windows set max = ${max} where category = 'sending'`);
  const key = await service.cliJson('keys', 'create', '--environment', 'test');
  await service.clock.advance({ seconds: 61 });
  await set(1);
  await service.send(EMAIL);
  const response = await dryRun();
  assertFailure(response, 429, 'rate_limit_error', /limit of 1 emails/);
  assert.equal(response.headers.get('ratelimit-limit'), '1');
  assert.ok(response.headers.get('retry-after'));
  await set(1000);
  const { headers } = await service.request('POST', PATH, { key: key.key, body: EMAIL });
  assert.equal(headers.get('ratelimit-limit'), '1000');
});

test('a sending-only key may make a dry run; a key for another domain may not', async () => {
  const make = async (rights: object) =>
    (await service.request('POST', '/v1/api-keys', { body: { name: 'x', ...rights } })).body.key;
  const ask = async (key: string) => service.request('POST', PATH, { key, body: EMAIL });
  assert.equal((await ask(await make({ permission: 'sending_access' }))).status, 200);
  assertFailure(await ask(await make({ domain: 'other.test' })), 403, 'authorization_error');
});

test('suppressed recipients are named with their reason; when all are, the email is refused', async () => {
  const address = 'jo@list.test';
  await service.request('POST', '/v1/suppressions', { body: { address } });
  const { recipients } = await described({ to: [address, EMAIL.to] });
  const [{ outcome, suppression, route }, other] = recipients;
  assert.deepEqual(suppression, { reason: 'manual', expires_at: null });
  assert.deepEqual([outcome, route, other.outcome], ['suppressed', null, 'attempt']);
  assertFailure(await dryRun({ to: address }), 422, 'suppressed');
});

test('an idempotency key is compared and not used up', async () => {
  const headers = { 'idempotency-key': 'receipt-1' };
  assert.equal((await described({}, headers)).outcome, 'send');
  const { body: sent } = await service.request('POST', '/v1/emails', { body: EMAIL, headers });
  const { object, outcome, replay_of, limit, ...rest } = await described({}, headers);
  assert.deepEqual([object, outcome, replay_of], ['dry_run', 'replay', sent.id]);
  assert.match(replay_of, UUID_V7);
  assert.ok(limit.limit > 0);
  assert.deepEqual(rest, {
    scheduled_at: null,
    tracking: null,
    message: null,
    sender: null,
    recipients: [],
    lint: [],
  });
  const other = await dryRun({ subject: 'Another' }, headers);
  assertFailure(other, 409, 'idempotency_conflict');
});

test('lint reports likely problems, and the email is accepted nevertheless', async () => {
  const html = `<img src="http://acme.test/a.png">${'<p> </p>'.repeat(14_000)}`;
  const { lint, outcome } = await described({ html, text: '', subject: 'Our newsletter' });
  assert.deepEqual(
    lint.map(({ code }: { code: string }) => code),
    ['no_text_part', 'clipped_by_gmail', 'http_links', 'image_only', 'no_unsubscribe'],
  );
  for (const { message } of lint) assert.match(message, /^\S[^\n]*\.$/);
  assert.equal(outcome, 'send');
});

test('a misspelt parameter is refused rather than sent', async () => {
  for (const path of ['/v1/emails?dryrun=true', '/v1/emails?dry_run=yes']) {
    assertFailure(await service.request('POST', path, { body: EMAIL }), 422, 'validation_error');
  }
  const batch = await service.request('POST', '/v1/emails/batch?dry_run=true', { body: [EMAIL] });
  assertFailure(batch, 422, 'validation_error', /^dry_run: /);
  const real = await service.request('POST', '/v1/emails?dry_run=false', { body: EMAIL });
  assert.equal(real.status, 202);
});

test('letterhaus send --dry-run prints what would happen, and with --json the response of the API', async () => {
  const draft = [
    '--from',
    EMAIL.from,
    '--to',
    EMAIL.to,
    '--subject',
    'Hello',
    '--text',
    'Hi http://a.test',
  ];
  const send = ['send', '--key', service.testKey, '--url', service.url, '--dry-run'];
  const before = await service.sql(COUNTED);
  const { code, stdout } = await service.cli(...send, ...draft);
  assert.equal(code, 0, stdout);
  const lines = [
    /^Outcome +would be sent now$/m,
    /^Size +\d+ bytes$/m,
    /^DKIM +lh1-\w+\._domainkey\.acme\.test +pass$/m,
    /^delivered@simulator\.test +attempt +simulator +0 simulator\.letterhaus\.invalid \(TLS none\)$/m,
    /^Warning: 1 link or image is loaded by http.*\(http_links\)$/m,
    /^Subject: +Hello$/m,
    /^Nothing was sent\.$/m,
  ];
  for (const line of lines) assert.match(stdout, line);
  assert.equal((await service.cliJson(...send, ...draft)).object, 'dry_run');
  assert.deepEqual(await service.sql(COUNTED), before);
  const refused = await service.cli(...send, ...draft, '--from', 'us@other.test');
  assert.equal(refused.code, 1);
  assert.match(refused.stderr, /other\.test is not a verified domain/);
  assert.equal((await service.cli(...send, '--batch', 'x.jsonl')).code, 2);
});
