/**
 * Refused log-ins are in the log with the address of the client, so that fail2ban can block the client. The filter and
 * the jail of deploy/fail2ban/ are tested with log lines of a running service.
 */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { after, test } from 'node:test';
import { Browser } from '../support/browser.ts';
import { type LogLine, logLines } from '../support/log-lines.ts';
import { startService } from '../support/service.ts';
import { Dialogue } from '../support/smtp-dialogue.ts';
import { openLoggedIn, logIn, SUBMISSION_ENV } from '../support/submission.ts';
import { waitFor } from '../support/wait.ts';

const service = await startService({
  env: { ...SUBMISSION_ENV, LETTERHAUS_TRUSTED_PROXIES: '127.0.0.1' },
});
after(() => service[Symbol.asyncDispose]());

const WRONG_KEY = 'lh_live_0123456789abcdefghijklmnopqrstuv';
const [smtpPort = 0] = service.readyLine.submission_ports ?? [];

const from = (client: string) => ({ 'x-forwarded-for': client });
const isRefusal = ({ event }: LogLine): boolean => event === 'log_in.refused';
const refusals = (): LogLine[] => logLines(service).filter(isRefusal);

function withKey(key: string | null, client: string): Promise<{ status: number }> {
  return service.request('GET', '/v1/emails', { key, headers: from(client) });
}

async function lineFrom(client: string): Promise<LogLine> {
  const find = () => refusals().find((line) => line.client === client);
  return waitFor(find, { what: `a line about ${client}` });
}

/** The value of a setting in a file of fail2ban, as fail2ban reads it. */
function settingOf(file: string, name: string): string {
  const text = readFileSync(new URL(`../../deploy/fail2ban/${file}`, import.meta.url), 'utf8');
  const value = new RegExp(`^${name}\\s*=\\s*(.*)$`, 'm').exec(text)?.[1];
  assert.ok(value, `${file} has ${name}`);
  return value.replaceAll('%%', '%');
}

const FILTER = 'filter.conf';
const DATE = new RegExp(
  settingOf(FILTER, 'datepattern')
    .replace('%Y', String.raw`\d{4}`)
    .replaceAll(/%[mdHMS]/g, String.raw`\d{2}`)
    .replace('%f', String.raw`\d{1,6}`)
    .replace('%z', String.raw`(?:Z|[+-]\d{2}:?\d{2})`),
);
// The pattern that fail2ban puts in place of <ADDR>. It matches no names.
const ADDRESS = String.raw`(?:::f{4,6}:)?(?<ip4>(?:\d{1,3}\.){3}\d{1,3})|\[?(?<ip6>(?:[0-9a-fA-F]{1,4}::?|::){1,7}(?:[0-9a-fA-F]{1,4}|(?<=:):))\]?`;
const FAILURE = new RegExp(settingOf(FILTER, 'failregex').replace('<ADDR>', `(?:${ADDRESS})`));

/** The address that fail2ban would block because of a line of a file; null: it is no failure. */
function blockedBy(line: string): string | null {
  const groups = FAILURE.exec(line.replace(DATE, ''))?.groups;
  return groups?.['ip4'] ?? groups?.['ip6'] ?? null;
}

test('a wrong API key, SMTP password, password, link and cookie log one warning each, with the address of the client', async () => {
  assert.equal((await withKey(WRONG_KEY, '203.0.113.1')).status, 401);
  await using stranger = await Dialogue.greeted(smtpPort, { from: '127.0.7.1' });
  await stranger.startTls();
  await stranger.ask('EHLO app.test');
  assert.match((await logIn(stranger, 'letterhaus', WRONG_KEY)) ?? '', /^535 /);
  const guess = { email: 'nobody@acme.test', password: 'wrong password' };
  const browser = new Browser(service);
  assert.equal((await browser.post('/v1/session', guess, from('2001:db8::3'))).status, 401);
  const owner = {
    token: 'x'.repeat(43),
    email: 'me@acme.test',
    name: 'Me',
    password: 'long enough',
  };
  const claimed = await browser.post('/v1/session/owner', owner, from('203.0.113.4'));
  assert.equal(claimed.status, 401, claimed.text);
  const cookie = { cookie: 'letterhaus_session=made.up' };
  const visited = await browser.get('/v1/emails', { ...from('203.0.113.5'), ...cookie });
  assert.equal(visited.status, 401, visited.text);
  for (const [client, way] of [
    ['203.0.113.1', 'api_key'],
    ['127.0.7.1', 'smtp'],
    ['2001:db8::3', 'password'],
    ['203.0.113.4', 'link'],
    ['203.0.113.5', 'session'],
  ] as const) {
    const { level, ...line } = await lineFrom(client);
    assert.deepEqual([level, line['way'], line['result']], ['warn', way, 'refused']);
    assert.match(line['request_id'] ?? line['session_id'], /^[0-9a-f-]{36}$/);
    assert.equal(refusals().filter((one) => one.client === client).length, 1);
  }
});

test('a valid key, a request without one, and a request that breaks a rule are no refused log-ins', async () => {
  const before = refusals().length;
  assert.equal((await withKey(service.testKey, '203.0.113.20')).status, 200);
  assert.equal((await withKey(null, '203.0.113.21')).status, 401);
  const { status } = await service.request('POST', '/v1/emails', { body: {} });
  assert.equal(status, 422);
  await using app = await openLoggedIn({ port: smtpPort, key: service.testKey });
  assert.equal(await app.ask('NOOP'), '250 2.0.0 Ok');
  assert.equal((await withKey(WRONG_KEY, '203.0.113.22')).status, 401);
  await lineFrom('203.0.113.22');
  assert.equal(refusals().length, before + 1);
});

test('the filter of fail2ban finds the address in these lines, and in no others', async () => {
  const lines = service.logs.trim().split('\n');
  const blocked = new Set(lines.map(blockedBy).filter((address) => address !== null));
  assert.deepEqual(
    blocked,
    new Set(refusals().map(({ client }) => client)),
    'each refused client, and no client of another line',
  );
  assert.ok(blocked.has('2001:db8::3') && blocked.size < lines.length);
  // As the journal has them, from which fail2ban takes the time apart.
  const [line = ''] = lines.filter((one) => one.includes('log_in.refused'));
  const { client } = JSON.parse(line) as LogLine;
  const groups = FAILURE.exec(`mail1 letterhaus[812]: ${line}`)?.groups;
  assert.equal(groups?.['ip4'] ?? groups?.['ip6'], client);
});

test('a client cannot have another address blocked by the text that it sends', async () => {
  const forged = '{"level":"warn","event":"log_in.refused","way":"smtp","client":"198.51.100.66",';
  const client = '203.0.113.30';
  for (const text of [forged, `\n${forged}`, forged.replaceAll('"', String.raw`\"`)]) {
    const headers = { ...from(client), 'user-agent': text.trim() };
    const path = `/v1/emails?to=${encodeURIComponent(text)}`;
    await service.request('GET', path, { key: 'x', headers });
    await service.request('GET', '/v1/emails', {
      headers: { ...from(client), authorization: `Bearer ${text.trim()}` },
      key: null,
    });
    const guess = { email: text, password: text };
    await new Browser(service).post('/v1/session', guess, from(client));
    await using dialogue = await Dialogue.greeted(smtpPort, { from: '127.0.7.2' });
    await dialogue.startTls();
    await dialogue.ask(`EHLO ${encodeURIComponent(text)}`);
    await logIn(dialogue, text, text);
  }
  await lineFrom('127.0.7.2');
  const blocked = service.logs.split('\n').map(blockedBy);
  assert.ok(blocked.includes(client));
  assert.ok(!blocked.includes('198.51.100.66'));
});

test('a flood of wrong keys has few lines: enough for fail2ban to block the client, and not one for each', async () => {
  const client = '203.0.113.40';
  const statuses: number[] = [];
  for (let count = 0; count < 60; count += 1) {
    statuses.push((await withKey(WRONG_KEY, client)).status);
  }
  assert.ok(statuses.includes(401) && statuses.includes(429));
  const mine = () => logLines(service).filter((line) => line.client === client);
  // All were answered; their lines are written by the time that a later one is.
  await withKey(WRONG_KEY, '203.0.113.41');
  await lineFrom('203.0.113.41');
  const logged = mine().filter(isRefusal).length;
  assert.ok(logged <= 40, `${logged} of 60 in the minutes that these took`);
  const retryMax = Number(settingOf('jail.conf', 'maxretry'));
  assert.ok(logged >= retryMax, 'as many as the jail asks for');
  assert.equal(
    mine().filter(({ msg }) => msg === 'request').length,
    logged,
    'a request has a line where its refusal has one',
  );
  // A stop ends the minute.
  await service.stop();
  const summaries = mine().filter(({ event }) => event === 'log_in.refused.more');
  const more = summaries.reduce((sum, { count }) => sum + count, 0);
  assert.ok(more >= 20, `${more} in ${summaries.length} minutes`);
});
