/**
 * One project creates content that is expensive to process, while another one sends and reads on the same worker. A key
 * with the fewest rights can read this content, and the event loop that all projects share processes it.
 */
import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { after, test } from 'node:test';
import { EMAIL } from '../support/api.ts';
import { startService } from '../support/service.ts';

const service = await startService({
  env: { LETTERHAUS_LIMIT_SENDING: '10000/60' },
  args: ['--workers', '1'],
});
after(() => service[Symbol.asyncDispose]());

/** Longest wait of a password reset, in milliseconds, with slack for a loaded machine. */
const WAIT_MAX_MS = 2_000;

const attacker = service.testKey;
const victim = await otherProject();

async function otherProject(): Promise<string> {
  const { id } = await service.cliJson('projects', 'create', 'Other');
  const scope = ['--project', id, '--environment', 'test'];
  const { key } = await service.cliJson('keys', 'create', ...scope);
  const added = await service.request('POST', '/v1/domains', { key, body: { name: 'other.test' } });
  const path = `/v1/domains/${added.body.id}/verify`;
  const verified = await service.request('POST', path, { key, body: {} });
  assert.equal(verified.body.status, 'verified', verified.text);
  return key;
}

async function timeMs(work: () => Promise<{ status: number; text: string }>): Promise<number> {
  const startedMs = performance.now();
  const { status, text } = await work();
  assert.ok(status < 300, text);
  return performance.now() - startedMs;
}

const reset = () =>
  service.request('POST', '/v1/emails', {
    key: victim,
    body: { ...EMAIL, from: 'reset@other.test' },
  });
const read = () => service.request('GET', '/v1/emails?limit=1', { key: victim });

/** Returns the 95th percentile of the other project's response times during the attack, in milliseconds. */
async function waitDuring(attack: () => Promise<unknown>): Promise<number> {
  const attacking = { isOver: false };
  const over = attack().finally(() => {
    attacking.isOver = true;
  });
  const waitsMs: number[] = [];
  while (!attacking.isOver) waitsMs.push(await timeMs(reset), await timeMs(read));
  await over;
  return waitsMs.toSorted((a, b) => a - b)[Math.floor(0.95 * (waitsMs.length - 1))] ?? 0;
}

async function isHarmless(what: string, attack: () => Promise<unknown>): Promise<void> {
  const waitedMs = await waitDuring(attack);
  assert.ok(waitedMs < WAIT_MAX_MS, `${what}: ${waitedMs.toFixed(0)} ms`);
}

const dryRun = (html: string) =>
  service.request('POST', '/v1/emails?dry_run=true', { key: attacker, body: { ...EMAIL, html } });

const atOnce = <Result>(count: number, work: (index: number) => Promise<Result>) =>
  Promise.all(Array.from({ length: count }, (_, index) => work(index)));

test('dry runs of html with runs of spaces do not delay another project', async () => {
  for (const tag of ['<img src=', '<a href="', '<a href =']) {
    await isHarmless(tag, () => atOnce(4, () => dryRun(`<p>Hi</p>${tag}${' '.repeat(190_000)}x>`)));
  }
});

async function publishedTemplate(template: object): Promise<string> {
  const created = await service.request('POST', '/v1/templates', {
    key: attacker,
    body: { name: 'x', subject: 'x', variables: [], ...template },
  });
  assert.equal(created.status, 201, created.text);
  const path = `/v1/templates/${created.body.id}/publish`;
  const { status, text } = await service.request('POST', path, { key: attacker, body: {} });
  assert.equal(status, 200, text);
  return created.body.id;
}

test('lists that become text, and tags of Handlebars, do not delay another project', async () => {
  const id = await publishedTemplate({
    text: '{% for x in (1..100000) %}{{ l | replace: "b", "c" }}{% for y in m limit: n %}{% endfor %}{% endfor %}',
    variables: ['l', 'm', 'n'].map((name) => ({ name, type: 'list' })),
  });
  const template = { id, variables: { l: ['a'.repeat(38_000)], m: [1], n: ['1'.repeat(38_000)] } };
  await isHarmless('lists', () =>
    atOnce(8, () =>
      service.request('POST', '/v1/emails', {
        key: attacker,
        body: { from: EMAIL.from, to: EMAIL.to, template },
      }),
    ),
  );
  for (const tag of ['\\{{x}} ', '{{!-- x --}}', `{{x ${'[a'.repeat(900)}}}`]) {
    const html = tag.repeat(250_000 / tag.length);
    const body = { html, syntax: 'handlebars' };
    await isHarmless(tag.slice(0, 20), () =>
      atOnce(4, () => service.request('POST', '/v1/templates/translate', { key: attacker, body })),
    );
  }
});

test('20 MB of character references do not delay another project in dry runs, sends and reads', async () => {
  const html = '&lt;'.repeat(5_000_000);
  await isHarmless('dry runs', () => atOnce(2, () => dryRun(html)));
  const body = { ...EMAIL, html };
  let id = '';
  await isHarmless('sending', async () => {
    const sent = await service.request('POST', '/v1/emails', { key: attacker, body });
    assert.equal(sent.status, 202, sent.text);
    id = sent.body.id;
  });
  for (const part of ['inspection', 'content']) {
    await isHarmless(part, async () => {
      const responses = await atOnce(6, () =>
        service.request('GET', `/v1/emails/${id}/${part}`, { key: attacker }),
      );
      for (const { status, text } of responses) assert.equal(status, 200, text.slice(0, 500));
    });
  }
});

async function sendLong(megabytes: number): Promise<{ path: string; link: string }> {
  const body = { ...EMAIL, html: '<p>Hello</p>'.repeat((megabytes * 1_000_000) / 12) };
  const sent = await service.request('POST', '/v1/emails', { key: attacker, body });
  assert.equal(sent.status, 202, sent.text);
  const path = `/emails/${sent.body.id}`;
  const shared = await service.request('POST', `/v1${path}/share`, { key: attacker, body: {} });
  return { path, link: new URL(shared.body.url).pathname };
}

test('an email of 20 MB that is read 34 times at once takes the memory of a few', async () => {
  const { path, link } = await sendLong(20);
  const [worker = 0] = await service.workerPids();
  const beforeMb = forgetPeak(worker);
  await isHarmless(path, async () => {
    const statuses = await Promise.all([
      ...Array.from({ length: 30 }, (_, n) => statusOf(n % 2 ? path : `/v1${path}`, attacker)),
      ...Array.from({ length: 4 }, () => statusOf(link, null)),
    ]);
    assert.deepEqual(new Set(statuses), new Set([200, 503]));
  });
  const grownMb = Math.round(memoryOf(worker).peakMb - beforeMb);
  assert.ok(grownMb < 500, `${grownMb} MB more`);
});

test('opening a link to a long email many times at once does not delay its project', async () => {
  const { path, link } = await sendLong(1);
  const [own, ...opened] = await Promise.all([
    statusOf(`/v1${path}`, attacker),
    ...Array.from({ length: 60 }, () => statusOf(link, null)),
  ]);
  assert.equal(own, 200);
  assert.deepEqual(new Set(opened), new Set([200, 503]));
});

/** Returns the memory of a process now, and at its peak since `forgetPeak`. */
function memoryOf(pid: number): { nowMb: number; peakMb: number } {
  const status = readFileSync(`/proc/${pid}/status`, 'utf8');
  const mb = (name: string) =>
    Number(new RegExp(`^${name}:\\s+(\\d+) kB`, 'm').exec(status)?.[1]) / 1024;
  return { nowMb: mb('VmRSS'), peakMb: mb('VmHWM') };
}

/** @returns the current memory of the process in megabytes */
function forgetPeak(pid: number): number {
  writeFileSync(`/proc/${pid}/clear_refs`, '5');
  return memoryOf(pid).nowMb;
}

/** Reads the response as it arrives, and keeps nothing of it. */
async function statusOf(path: string, key: string | null): Promise<number> {
  const headers = key === null ? {} : { authorization: `Bearer ${key}` };
  const response = await fetch(`${service.url}${path}`, { headers });
  for await (const piece of response.body ?? []) void piece;
  return response.status;
}

test('a project whose requests for content are too many is refused, and no other', async () => {
  const sent = await service.request('POST', '/v1/emails', { key: attacker, body: EMAIL });
  const path = `/v1/emails/${sent.body.id}/content`;
  const responses = await atOnce(200, () => service.request('GET', path, { key: attacker }));
  const statuses = new Set(responses.map(({ status }) => status));
  assert.deepEqual(statuses, new Set([200, 503]));
  const own = await service.request('POST', '/v1/emails', {
    key: victim,
    body: { ...EMAIL, from: 'reset@other.test' },
  });
  const mine = `/v1/emails/${own.body.id}/content`;
  assert.equal((await service.request('GET', mine, { key: victim })).status, 200);
});
