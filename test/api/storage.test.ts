/** A project that fills its storage is refused, and no other project is. */
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { after, test } from 'node:test';
import { assertFailure, EMAIL } from '../support/api.ts';
import { type ApiResponse, type RequestOptions, startService } from '../support/service.ts';
import { openLoggedIn, SUBMISSION_ENV, submit } from '../support/submission.ts';
import { waitFor } from '../support/wait.ts';
import { MIB } from '../../src/lib/units.ts';

const MAX_MB = 32;

const service = await startService({
  args: ['--workers', '2'],
  env: {
    ...SUBMISSION_ENV,
    LETTERHAUS_STORAGE_MAX_MB: String(MAX_MB),
    LETTERHAUS_LIMIT_SENDING: '100000/60',
  },
});
after(() => service[Symbol.asyncDispose]());

type Project = { id: string; key: string };

/** Creates a project without stored mail. */
async function newProject(name: string): Promise<Project> {
  const { id } = await service.cliJson('projects', 'create', name);
  const { key } = await service.cliJson('keys', 'create', '--environment', 'test', '--project', id);
  const added = await service.request('POST', '/v1/domains', { key, body: { name: 'acme.test' } });
  await service.request('POST', `/v1/domains/${added.body.id}/verify`, { key });
  return { id, key };
}

const other = await newProject('Neighbour');

/** An attachment that makes a message of 10 MB. */
const CONTENT = Buffer.alloc(7 * MIB, 'x').toString('base64');
const inDays = (days: number): string => new Date(Date.now() + days * 24 * 3_600_000).toISOString();

const large = (days = 25) => ({
  ...EMAIL,
  scheduled_at: inDays(days),
  attachments: [{ filename: 'large.bin', content: CONTENT }],
});

const send = ({ key }: Project, body: object, options: RequestOptions = {}): Promise<ApiResponse> =>
  service.request('POST', '/v1/emails', { key, body, ...options });

const storageOf = async ({ key }: Project): Promise<{ max_bytes: number; used_bytes: number }> =>
  (await service.request('GET', '/v1/limits', { key })).body.storage;

test('large scheduled emails fill the storage of their project alone, from two workers at once', async () => {
  const project = await newProject('Scheduling');
  const responses: ApiResponse[] = [];
  for (let day = 1; day <= 24; day += 6) {
    responses.push(
      ...(await Promise.all([send(project, large(day)), send(project, large(day + 3))])),
    );
  }
  const accepted = responses.filter(({ status }) => status === 202);
  assert.equal(accepted.length, 3, 'three of 10 MB fit into 32');
  for (const response of responses.filter(({ status }) => status !== 202)) {
    assertFailure(response, 409, 'conflict', /storage of this project is full: .*set-storage-max/);
  }
  const { max_bytes: max, used_bytes: used } = await storageOf(project);
  assert.equal(max, MAX_MB * MIB);
  assert.ok(used > 0.8 * max && used <= max, `${used} of ${max}`);
  const batch = await service.request('POST', '/v1/emails/batch', {
    key: project.key,
    body: [large(), large()],
  });
  assertFailure(batch, 409, 'conflict', /storage of this project is full/);
  await service.send({}, { key: other.key });
  assert.equal((await send(other, large())).status, 202);
});

test('small emails stop at the maximum, too, and a repeated request gets its first response', async () => {
  const project = await newProject('Small emails');
  await service.sql('update projects set storage_bytes_max = $1 where id = $2', [MIB, project.id]);
  const headers = { 'idempotency-key': randomUUID() };
  const before = await send(project, EMAIL, { headers });
  assert.equal(before.status, 202);
  let accepted = 1;
  for (let round = 0; round < 60; round += 1) {
    const html = `<p>${'x'.repeat(20_000)}</p>`;
    const responses = await Promise.all(
      Array.from({ length: 8 }, () => send(project, { ...EMAIL, html })),
    );
    accepted += responses.filter(({ status }) => status === 202).length;
    if (responses.every(({ status }) => status === 409)) break;
  }
  assert.ok(accepted > 15 && accepted <= 50, `${accepted} of 24 KB were accepted`);
  assert.ok((await storageOf(project)).used_bytes <= MIB);
  const again = await send(project, EMAIL, { headers });
  assert.deepEqual([again.status, again.text], [200, before.text]);
  await service.send({}, { key: other.key });
});

test('a submitted message is refused with 452 4.3.1', async () => {
  const { id, key } = await newProject('Submitting');
  await service.sql('update projects set storage_bytes_max = 1000 where id = $1', [id]);
  const [port = 0] = service.readyLine.submission_ports ?? [];
  const dialogue = await openLoggedIn({ port, key });
  const lines = [
    'From: hello@acme.test',
    'To: delivered@simulator.test',
    'Subject: Hello',
    '',
    'Hi',
  ];
  assert.match(
    (await submit(dialogue, { to: ['delivered@simulator.test'], lines })) ?? '',
    /^452[- ]4\.3\.1 /,
  );
  await dialogue.ask('QUIT');
});

test('a project that is nearly full is in the log and in the list of projects', async () => {
  const project = await newProject('Archive');
  for (let sent = 0; sent < 3; sent += 1) {
    assert.equal((await send(project, large())).status, 202);
  }
  await service.restart();
  const warning = 'The storage of project Archive is nearly full';
  await waitFor(() => service.logs.includes(warning), { what: 'a warning' });
  const list = await service.cli('projects', 'list');
  assert.match(list.stdout, /Archive .*2\d MB of 32 MB, nearly full/);
  const set = await service.cli('projects', 'set-storage-max', '1000', '--project', project.id);
  assert.match(set.stdout, /2\d MB of 1,000 MB/, set.stderr);
  assert.equal((await send(project, large())).status, 202);
});

test('by default a project may store half of what the database may take', async () => {
  await using own = await startService({ env: { LETTERHAUS_DATABASE_MAX_MB: '400' } });
  const max = async () => (await own.request('GET', '/v1/limits')).body.storage.max_bytes;
  await waitFor(async () => (await max()) === 200 * MIB, { what: 'the default maximum' });
});

test('an email that is refused for another reason takes no room, nor does one that was deleted', async () => {
  const project = await newProject('Deleting');
  for (let sent = 0; sent < 5; sent += 1) {
    const response = await send(project, { ...large(), from: 'hello@unknown.test' });
    assertFailure(response, 403, 'domain_not_verified');
  }
  for (let sent = 0; sent < 3; sent += 1) {
    assert.equal((await send(project, large())).status, 202);
  }
  await service.clock.advance({ hours: 24 * 80 });
  await service.restart();
  await waitFor(async () => (await storageOf(project)).used_bytes === 0, { what: 'room again' });
  assert.equal((await send(project, large(81))).status, 202);
});
