/** The suppression list as a CSV file, in and out, by HTTP and by command line. */
import { after, test } from 'node:test';
import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { request as httpRequest } from 'node:http';
import { join } from 'node:path';
import { assertFailure } from '../support/api.ts';
import { type ApiResponse, startService } from '../support/service.ts';
import { waitFor } from '../support/wait.ts';

const service = await startService({ args: ['--workers', '1'] });
after(() => service[Symbol.asyncDispose]());

type Body = ApiResponse['body'];

const PATH = '/v1/suppressions';
const CSV = { 'content-type': 'text/csv' };

/** A project of its own: an empty list. */
async function newProject(name: string): Promise<{ key: string; project: string }> {
  const { id } = await service.cliJson('projects', 'create', name);
  const { key } = await service.cliJson('keys', 'create', '--environment', 'test', '--project', id);
  return { key, project: id };
}

async function importFile(key: string, file: string): Promise<Body> {
  const response = await service.request('POST', `${PATH}/import`, {
    key,
    headers: CSV,
    body: file,
  });
  assert.equal(response.status, 200, response.text);
  return response.body;
}

const exportFile = async (key: string, query = ''): Promise<string> =>
  (await service.request('GET', `${PATH}/export${query}`, { key })).text;

const rowsOf = (file: string) => file.trimEnd().split('\r\n').slice(1);

const ROWS = 8_000;

function manyRows(): string {
  const reasons = ['hard_bounce', 'complaint', 'unsubscribe', 'manual'];
  const rows = Array.from(
    { length: ROWS },
    (_, n) => `user${n}@customers${n % 50}.test,${reasons[n % 4]},2025-06-01T00:00:00Z`,
  );
  return `address,reason,created_at\n${rows.join('\n')}\n`;
}

test('8,000 addresses are imported, each with its event, exported and imported elsewhere', async () => {
  const { key, project } = await newProject('Large');
  const result = await importFile(key, manyRows());
  const done = {
    object: 'suppression_import',
    format: 'letterhaus',
    already_there: 0,
    rejected: 0,
    left_out: [],
    errors: [],
  };
  assert.deepEqual(result, { ...done, added: ROWS });
  const counts = await service.sql(
    `select (select count(*)::int from events where project_id = $1) as events,
            (select count(*)::int from suppression_history where project_id = $1) as remembered`,
    [project],
  );
  assert.deepEqual(counts, [{ events: ROWS, remembered: ROWS }]);
  const again = await importFile(key, manyRows());
  assert.deepEqual(again, { ...done, added: 0, already_there: ROWS });

  const file = await exportFile(key);
  const rows = rowsOf(file);
  assert.equal(rows.length, ROWS);
  assert.match(rows[0]!, /^user0@customers0\.test,hard_bounce,,2025-06-01T00:00:00\.000Z,$/);
  assert.equal(rowsOf(await exportFile(key, '?reason=complaint')).length, ROWS / 4);
  const other = await newProject('Copy');
  assert.equal((await importFile(other.key, file)).added, ROWS);
  assert.equal(await exportFile(other.key), file);
});

test('invalid rows are reported with their line, and valid rows are imported', async () => {
  const { key } = await newProject('Mixed');
  const file = [
    '\ufeffReason,Email,Note,Expires_At',
    'complaint,ann@acme.test,"a note, with ""quotes""",',
    'complaint,ann@,,',
    '"manual"x,bad@acme.test,,',
    'boring,ben@acme.test,,',
    ',cara@acme.test,,2999-01-01',
    'manual,old@acme.test,,2001-01-01',
    'manual,"Dan@acme.test","two\r\nlines",',
    "unsubscribe,'+eva@acme.test,,",
  ].join('\r\n');
  const { errors, ...counts } = await importFile(key, file);
  assert.deepEqual(counts, {
    object: 'suppression_import',
    format: 'letterhaus',
    added: 4,
    already_there: 0,
    rejected: 4,
    left_out: [],
  });
  const lines = errors.map(({ line, message }: Body) => `${line} ${message}`).toSorted();
  assert.match(lines[0], /^3 "ann@" is not an email address: nothing follows the @\.$/);
  assert.match(lines[1], /^4 Text follows a closing quote/);
  assert.match(lines[2], /^5 "boring" is not one of/);
  assert.match(lines[3], /^7 expires_at: is in the past/);
  const entries = (await service.request('GET', PATH, { key })).body.data;
  assert.deepEqual(
    entries.map(({ address, reason, expires_at }: Body) => [address, reason, expires_at]),
    [
      ['+eva@acme.test', 'unsubscribe', null],
      ['ann@acme.test', 'complaint', null],
      ['cara@acme.test', 'manual', '2999-01-01T00:00:00.000Z'],
      ['Dan@acme.test', 'manual', null],
    ],
  );
  assert.match(await exportFile(key), /\r\n'\+eva@acme\.test,/);
});

test('a hundred invalid rows are reported and all counted, and a file without header is read', async () => {
  const { key } = await newProject('Bad');
  const result = await importFile(key, `jo@acme.test\n${'nobody\n'.repeat(250)}`);
  assert.deepEqual([result.added, result.rejected, result.errors.length], [1, 250, 100]);
  assert.equal(result.errors[99].line, 101);
  assert.equal((await importFile(key, '')).added, 0);
});

test('an interrupted upload keeps committed rows, and the next one adds the rest', async () => {
  const { key, project } = await newProject('Broken off');
  const file = manyRows();
  const upload = httpRequest(`${service.url}${PATH}/import`, {
    method: 'POST',
    headers: { ...CSV, authorization: `Bearer ${key}` },
  });
  upload.on('error', () => {});
  upload.write(file.slice(0, file.length / 2));
  const count = async (): Promise<number> => {
    const sql = 'select count(*)::int as n from suppressions where project_id = $1';
    return (await service.sql(sql, [project]))[0].n;
  };
  await waitFor(async () => (await count()) >= 2_000, {
    what: 'the first batches',
  });
  const closed = new Promise((resolve) => upload.once('close', resolve));
  upload.destroy();
  await closed;
  const result = await importFile(key, file);
  assert.ok(result.already_there >= 2_000);
  assert.equal(result.added + result.already_there, ROWS);
  assert.equal(await count(), ROWS);
});

test('an import may be larger than other bodies', async () => {
  const { key } = await newProject('Wide');
  const row = (n: number) => `user${n}@acme.test,${'x'.repeat(10_000)}\n`;
  const file = `address,note\n${Array.from({ length: 5_000 }, (_, n) => row(n)).join('')}`;
  assert.ok(file.length > 45 * 1024 * 1024);
  assert.equal((await importFile(key, file)).added, 5_000);
});

test('only CSV and JSON in UTF-8 are imported, and only imports accept CSV', async () => {
  const post = (path: string, type: string | null, more: Record<string, string> = {}) =>
    service.request('POST', path, {
      body: 'jo@acme.test',
      headers: { ...(type !== null && { 'content-type': type }), ...more },
    });
  for (const type of ['text/plain', 'text/csv; charset=iso-8859-1', 'text/csvx']) {
    const response = await post(`${PATH}/import`, type);
    assertFailure(response, 415, 'unsupported_media_type', /CSV/);
  }
  const packed = await post(`${PATH}/import`, 'text/csv', { 'content-encoding': 'gzip' });
  assertFailure(packed, 415, 'unsupported_media_type');
  assertFailure(await post('/v1/emails', 'text/csv'), 415, 'unsupported_media_type', /JSON/);
  assertFailure(await post(PATH, 'text/csv'), 415, 'unsupported_media_type', /JSON/);
  assert.equal((await post(`${PATH}/import`, 'TEXT/CSV; charset=UTF-8')).status, 200);
});

test('an import during a database outage reports it and can be repeated', async () => {
  const { key } = await newProject('Away');
  await service.setDatabaseReachable(false);
  const away = await service.request('POST', `${PATH}/import`, {
    key,
    headers: CSV,
    body: 'jo@acme.test\n',
  });
  assertFailure(away, 503, 'service_unavailable');
  const file = await service.request('GET', `${PATH}/export`, { key });
  assertFailure(file, 503, 'service_unavailable');
  await service.setDatabaseReachable(true);
  const again = await waitFor(
    async () => {
      const response = await service.request('POST', `${PATH}/import`, {
        key,
        headers: CSV,
        body: 'jo@acme.test\n',
      });
      return response.status !== 503 && response;
    },
    { what: 'the database to be back' },
  );
  assert.deepEqual([again.status, again.body.added], [200, 1]);
});

test('the command line imports and exports files', async () => {
  const { project } = await newProject('Files');
  const where = ['--project', project, '--environment', 'test'];
  const [source, target] = ['in.csv', 'out.csv'].map((name) => join(service.dataDir, name));
  writeFileSync(source!, 'ann@acme.test,complaint\nben@acme.test\nnobody\n');
  const imported = await service.cli('suppressions', 'import', source!, ...where);
  assert.equal(imported.code, 1, imported.stderr);
  assert.match(imported.stdout, /line 3: .*\n2 added, 0 already present, 1 rejected\./);
  const written = await service.cliJson('suppressions', 'export', target!, ...where);
  assert.equal(written.rows, 2);
  const piped = await service.cli('suppressions', 'export', ...where);
  assert.deepEqual([piped.code, piped.stdout], [0, readFileSync(target!, 'utf8')]);
  assert.match(piped.stdout, /^address,reason,.*\r\nann@acme\.test,complaint,/);
  const none = await service.cli(
    'suppressions',
    'import',
    join(service.dataDir, 'no.csv'),
    ...where,
  );
  assert.deepEqual([none.code, /no\.csv cannot be used/.test(none.stderr)], [2, true]);
});
